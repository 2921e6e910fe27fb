// Runs the MPI tests, the same program on every rank: mpirun -np N test_mpi. The first failing rank prints
// and ends all, since the others would wait for it. With --fail=RANK,KIND it is the program that the tests of
// failing jobs start.
#include <gtest/gtest.h>

#include <cstdio>
#include <string_view>

#include "parallel/comm/mpi_comm.h"
#include "tests/mpi/session.h"

namespace fivefold::test {

namespace {

MpiSession* g_session = nullptr;

class EndJobOnFailure final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", g_session->world_rank(),
                 result.file_name() ? result.file_name() : "?", result.line_number(), result.message());
    g_session->abort(1);
  }
};

// Barriers for ever, until rank `rank` fails in the way that `kind` names ("all": every rank fails).
void fail_in_body(Transport& transport, int rank, std::string_view kind) {
  transport.world().barrier();
  if (transport.world().rank() == rank || kind == "all") {
    if (kind == "abort") transport.world().abort("told to");
    if (kind == "exit") std::_Exit(3);
    if (kind == "error") throw Error("a broken invariant");
    throw UserError("a user's mistake");
  }
  for (;;) transport.world().barrier();
}

}  // namespace

MpiSession& session() { return *g_session; }

}  // namespace fivefold::test

int main(int argc, char** argv) {
  using namespace fivefold;
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first.starts_with("--fail="))
    return run_mpi_rank([&](Transport& t) { test::fail_in_body(t, first[7] - '0', first.substr(9)); }), 0;
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  MpiSession session;
  test::g_session = &session;
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (session.world_rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new test::EndJobOnFailure);
  return RUN_ALL_TESTS();
}
