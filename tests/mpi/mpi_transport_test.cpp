// The MPI transport: values, equality with threads to the bit, messages longer than MPI can count, and its
// errors.
#include <gtest/gtest.h>
#include <mpi.h>

#include <sstream>

#include "parallel/comm/launch_environment.h"
#include "parallel/comm/launch_order.h"
#include "parallel/comm/mpi_check.h"
#include "parallel/comm/thread_world.h"
#include "parallel/mesh/host_slots.h"
#include "tests/mpi/session.h"
#include "tests/support/collective_cases.h"

namespace fivefold {
namespace {

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(MpiCollectives, AllOperationsTypesAndSizes) {
  const auto transport = make_mpi_transport(test::session());
  EXPECT_EQ(transport->kind(), "mpi");
  test::check_collectives(*transport);
}

// Operands above 2^31 bytes travel in several messages; here the limit is lowered to sizes that divide
// nothing.
TEST(MpiCollectives, LongOperandsTravelInSeveralMessages) {
  for (const std::int64_t bytes : {1, 100, 4099}) {
    if (bytes == 1 && test::session().world_size() > 1) continue;  // a million messages
    MpiOptions options;
    options.message_bytes = bytes;
    test::check_collectives(*make_mpi_transport(test::session(), options));
  }
}

TEST(MpiCollectives, HaveTheBitsOfThreads) {
  const auto over_mpi = test::hash_of_random_sums(*make_mpi_transport(test::session()));
  std::uint64_t over_threads = 0;
  run_ranks(test::session().world_size(), [&](Transport& transport) {
    const auto hash = test::hash_of_random_sums(transport);
    if (transport.world().rank() == 0) over_threads = hash;
  });
  EXPECT_EQ(over_mpi, over_threads);
}

// A rank that waits for one transfer moves its others on: rank 0 waits for the second first, all others for
// the first first.
TEST(MpiCollectives, WaitingForOneTransferMovesTheOthersOn) {
  const auto transport = make_mpi_transport(test::session());
  auto& world = transport->world();
  const auto other = transport->create("other", world.members());
  const auto memory = make_cpu_memory();
  CpuStream stream;
  const auto a = empty(*memory, {3000}, DType::f32, Tag::communication, stream);
  const auto b = empty(*memory, {3000}, DType::f32, Tag::communication, stream);
  std::fill_n(a.data<float>(), 3000, 1.0f);
  std::fill_n(b.data<float>(), 3000, 2.0f);
  auto first = world.all_reduce(a, Reduce::sum, stream);
  auto second = other->all_reduce(b, Reduce::sum, stream);
  if (world.rank() == 0) std::swap(first, second);
  first.wait(stream);
  second.wait(stream);
  EXPECT_EQ(a.data<float>()[2999], static_cast<float>(world.size()));
  EXPECT_EQ(b.data<float>()[0], static_cast<float>(2 * world.size()));
}

// A record as one line of words, for the exchange below.
std::string encode(const LedgerRecord& r) {
  std::string members;
  for (const int m : r.members) members += str(' ', m);
  return str(r.launch, ' ', r.group, ' ', r.sequence, ' ', static_cast<int>(r.op), ' ', r.bytes, ' ', r.rank,
             ' ', r.peer, members, '\n');
}

std::vector<LedgerRecord> decode(const std::string& text) {
  std::vector<LedgerRecord> records;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    auto& r = records.emplace_back();
    int op = 0;
    words >> r.launch >> r.group >> r.sequence >> op >> r.bytes >> r.rank >> r.peer;
    r.op = static_cast<CommOp>(op);
    for (int member = 0; words >> member;) r.members.push_back(member);
  }
  return records;
}

TEST(MpiLedger, LaunchOrderOfAllRanksHasNoCircle) {
  MpiOptions options;
  options.keep_all = true;
  const auto transport = make_mpi_transport(test::session(), options);
  test::check_collectives(*transport);
  std::string mine;
  for (const auto& record : transport->world().ledger().records()) {
    EXPECT_GE(record.done_ns, record.started_ns);
    mine += encode(record);
  }
  ASSERT_EQ(mine.empty(), test::session().world_size() == 1);
  std::vector<std::vector<LedgerRecord>> all;
  for (const auto& text : transport->world().gather_bytes(mine)) all.push_back(decode(text));
  check_launch_order(all);
  if (all[0].empty()) return;
  all[0].erase(all[0].begin());  // the check can fail
  EXPECT_THROW(check_launch_order(all), Error);
}

TEST(MpiErrors, AreExceptionsWithMpisOwnText) {
  const auto text = error_of([] {
    int value = 0;
    FF_MPI(MPI_Send(&value, 1, MPI_INT, 12345, 0, MPI_COMM_WORLD));
  });
  EXPECT_NE(text.find("MPI_Send(&value"), std::string::npos) << text;
  EXPECT_NE(text.find("MPI_ERR_RANK"), std::string::npos) << text;
}

// Ends that disagree about the length of a message: both the longer and the shorter one are an error where it
// arrives.
TEST(MpiErrors, LengthsThatDisagreeAreNoticed) {
  if (test::session().world_size() == 1) return;  // nobody to disagree with
  for (const std::int64_t sent : {4, 6}) {
    const auto transport = make_mpi_transport(test::session());
    const auto memory = make_cpu_memory();
    CpuStream stream;
    if (transport->world().rank() == 0)
      transport->world()
          .send(empty(*memory, {sent}, DType::f32, Tag::communication, stream), 1, stream)
          .wait(stream);
    if (transport->world().rank() == 1) {
      const auto t = empty(*memory, {5}, DType::f32, Tag::communication, stream);
      const auto text = error_of([&] { transport->world().recv(t, 0, stream).wait(stream); });
      EXPECT_NE(text.find(sent < 5 ? "16 vs 20" : "MPI_ERR_TRUNCATE"), std::string::npos) << text;
    }
  }
}

TEST(MpiSessionTest, ASecondOneIsRefused) { EXPECT_THROW(MpiSession again, Error); }

// B81, B83: what the launcher's variables say agrees with MPI, and every rank of this host gets another local
// rank.
TEST(MpiLaunch, EnvironmentAgreesWithMpi) {
  const auto launched = read_launch_environment();
  if (launched.mpi) {
    EXPECT_EQ(launched.world_size, test::session().world_size());
    EXPECT_EQ(launched.world_rank, test::session().world_rank());
  }
  const auto transport = make_mpi_transport(test::session());
  const auto slots = gather_host_slots(transport->world(), host_name(), launched.local_rank);
  ASSERT_EQ(static_cast<int>(slots.size()), test::session().world_size());
  for (std::size_t r = 0; r < slots.size(); ++r) EXPECT_EQ(slots[r].local_rank, static_cast<int>(r));
}

}  // namespace
}  // namespace fivefold
