// How many ranks there are, what may not be asked together, what all ranks must share, and signals as flags.
#include "launcher/world.h"

#include <gtest/gtest.h>

#include <csignal>

#include "launcher/agreement.h"
#include "launcher/signals.h"
#include "parallel/comm/mpi_comm.h"
#include "parallel/comm/thread_world.h"

namespace fivefold {
namespace {

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

LaunchEnvironment mpirun_of(int size) {
  return {.mpi = true,
          .launcher = "mpirun",
          .world_size = size,
          .world_rank = 0,
          .local_rank = 0,
          .local_size = size};
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
}

TEST(WorldSize, FromRanksOrLauncher) {
  EXPECT_EQ(world_size({}, {}), 1);
  EXPECT_EQ(world_size({.ranks = 4}, {}), 4);
  if (!mpi_available()) return;
  EXPECT_EQ(world_size({}, mpirun_of(4)), 4);
  EXPECT_EQ(world_size({.transport = TransportName::mpi}, mpirun_of(3)), 3);
  EXPECT_EQ(world_size({.transport = TransportName::nccl}, mpirun_of(3)), 3);
  EXPECT_EQ(world_size({.transport = TransportName::mpi}, {}), 1);
  EXPECT_EQ(world_size({.transport = TransportName::thread}, mpirun_of(1)), 1);
}

TEST(WorldSize, ContradictionsAreRefused) {
  expect_words(refusal([] { world_size({.ranks = 4}, mpirun_of(2)); }), {"--ranks", "4", "mpirun", "2"});
  expect_words(refusal([] { world_size({.transport = TransportName::thread}, mpirun_of(2)); }),
               {"thread", "mpirun", "2"});
  expect_words(refusal([] { world_size({.ranks = 2, .transport = TransportName::mpi}, {}); }),
               {"parallel.transport=mpi", "--ranks 2"});
  expect_words(refusal([] { world_size({.ranks = 2, .transport = TransportName::nccl}, {}); }),
               {"parallel.transport=nccl", "--ranks 2"});
  // srun without a PMI that MPI knows: several processes that each believe to be alone.
  const LaunchEnvironment srun{
      .mpi = false, .launcher = "srun", .world_size = 8, .world_rank = 3, .local_rank = {}, .local_size = {}};
  expect_words(refusal([&] { world_size({}, srun); }), {"srun", "8", "--mpi=pmix"});
}

TEST(RunWorld, GivesTheLargestResult) {
  EXPECT_EQ(run_world({.ranks = 3},
                      [](RankContext& context) {
                        EXPECT_EQ(context.world_size(), 3);
                        return context.world_rank() == 1 ? 75 : context.world_rank();
                      }),
            75);
}

// B85: one rank's failure is the run's, told with its rank.
TEST(RunWorld, AFailureOfOneRankComesOut) {
  const auto text = refusal([] {
    run_world({.ranks = 3}, [](RankContext& context) -> int {
      if (context.world_rank() == 2) throw UserError("no such thing");
      context.transport.world().barrier();
      return 0;
    });
  });
  expect_words(text, {"rank 2", "no such thing"});
}

TEST(AgreementOfRanks, NamesWhatDiffersAndWhere) {
  const auto check = [](int odd_rank, const std::string& value) {
    return refusal([&] {
      run_ranks(3, [&](Transport& transport) {
        const auto mine = transport.world().rank() == odd_rank ? value : "1";
        check_agreement(transport.world(), {{"program version", "0.1"}, {"OMP_NUM_THREADS", mine}});
      });
    });
  };
  EXPECT_EQ(check(-1, ""), "accepted");
  expect_words(check(2, "8"), {"OMP_NUM_THREADS: 1", "rank 2", "OMP_NUM_THREADS: 8"});
  expect_words(check(0, "8"), {"rank 0 has 'OMP_NUM_THREADS: 8'", "rank 1"});
}

TEST(AgreementOfRanks, FactsNameTheConfiguration) {
  const auto hash = [](const std::string& text) {
    for (const auto& [what, value] : rank_facts(text))
      if (what == "configuration hash") return value;
    return std::string("none");
  };
  EXPECT_EQ(hash("a"), hash("a"));
  EXPECT_NE(hash("a"), hash("b"));
}

TEST(StopSignalsTest, KeepTheFirstAndIgnoreLateOnes) {
  {
    const StopSignals signals;
    EXPECT_EQ(signals.seen(), 0);
    std::raise(SIGUSR1);
    std::raise(SIGTERM);
    std::raise(SIGHUP);
    EXPECT_EQ(signals.seen(), SIGUSR1);
  }
  std::raise(SIGTERM);  // on the way out: ignored
  const StopSignals again;
  EXPECT_EQ(again.seen(), 0);
}

TEST(StopSignalsDeathTest, SecondInterruptEndsAtOnce) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const StopSignals signals;
        std::raise(SIGINT);
        if (signals.seen() == SIGINT) std::raise(SIGINT);
        std::_Exit(0);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace fivefold
