// Runs the MPI tests, the same program on every rank: mpirun -np N test_mpi. The first failing rank prints
// and ends all, since the others would wait for it. With --fail=RANK,KIND it is the program that the tests of
// failing jobs start.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <string_view>
#include <thread>

#include "parallel/comm/mpi_comm.h"
#include "parallel/comm/watch.h"
#include "tests/mpi/nccl_ranks.h"
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

// Another round with everybody: a barrier, or by NCCL a sum that the host waits for.
class Rounds {
 public:
  Rounds(Transport& transport, bool by_nccl) : transport_(transport) {
    if (!by_nccl) return;
    const int device = shared_device(transport.world().rank());
    memory_ = make_cuda_memory(device);
    stream_ = make_cuda_stream(device);
    t_ = empty(*memory_, {1 << 20}, DType::f32, Tag::communication, *stream_);
  }
  void next() {
    if (!t_) return transport_.world().barrier();
    transport_.world().all_reduce(t_, Reduce::sum, *stream_).wait(*stream_);
    stream_->synchronize();
  }

 private:
  Transport& transport_;
  std::shared_ptr<Memory> memory_;
  std::unique_ptr<Stream> stream_;
  Tensor t_;
};

// Rounds for ever, until rank `rank` fails in the way that `kind` names ("all": every rank fails).
// With "nccl-" before the kind they are NCCL's.
void fail_in_body(Transport& mpi, int rank, std::string_view kind) {
  const bool by_nccl = kind.starts_with("nccl-");
  if (by_nccl) kind.remove_prefix(5);
  const auto nccl = by_nccl ? make_nccl(mpi) : nullptr;
  Transport& transport = nccl ? *nccl : mpi;
  Rounds rounds(transport, by_nccl);
  const Watch watch(transport, {.deadline = [](const auto&) { return std::chrono::seconds(2); }});
  rounds.next();
  if (transport.world().rank() == rank || kind == "all") {
    if (kind == "stop") std::raise(SIGSTOP);
    if (kind == "kill") std::raise(SIGKILL);
    if (kind == "late") {
      transport.world().ledger().set_activity("data/next_batch");
      std::this_thread::sleep_for(std::chrono::minutes(5));
    }
    if (kind == "abort") transport.world().abort("told to");
    if (kind == "exit") std::_Exit(3);
    if (kind == "error") throw Error("a broken invariant");
    throw UserError("a user's mistake");
  }
  for (;;) rounds.next();
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
