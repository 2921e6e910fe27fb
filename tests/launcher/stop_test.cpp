// The real program told to stop: it saves once, leaves with 75 and goes on with the same command, as threads
// of one process and under mpirun, where only one of the ranks hears of it.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "checkpoint/steps.h"
#include "checkpoint/verify.h"
#include "core/error.h"
#include "parallel/comm/mpi_comm.h"
#include "tests/support/train_run.h"

namespace fivefold {
namespace {

using test::Process;
using Words = std::vector<std::string>;

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

class Stop : public testing::Test {
 protected:
  Words command(const Words& launcher, const Words& more) const {
    auto words = launcher;
    words.insert(words.end(), {test::program(), "train"});
    const auto arguments = folder_.arguments("run", more);
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }
  // Until the run has written so many lines.
  void wait_for_lines(Process& process, std::size_t lines) {
    while (!process.ended() && folder_.metrics("run").size() < lines) pause();
    ASSERT_FALSE(process.ended()) << process.wait().output;
  }
  // The only checkpoint is that of the last step and proves whole.
  std::int64_t saved_step() {
    const auto steps = list_steps(fs_, folder_.run("run") / "checkpoints");
    EXPECT_EQ(steps.size(), 1u);
    if (steps.empty()) return -1;
    EXPECT_TRUE(verify_checkpoint(fs_, steps[0].dir).empty());
    EXPECT_EQ(folder_.metrics("run").back().step, steps[0].step);
    return steps[0].step;
  }
  // The same run for two steps more.
  void goes_on_from(std::int64_t step, const Words& launcher, Words more) {
    more[0] = "--run.steps=" + std::to_string(step + 2);
    const auto finished = Process(command(launcher, more), folder_ / "output").wait();
    EXPECT_EQ(finished.code, 0) << finished.output;
    const auto lines = folder_.metrics("run");
    ASSERT_EQ(static_cast<std::int64_t>(lines.size()), step + 2);
    for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i].step, static_cast<std::int64_t>(i) + 1);
  }

  const Words endless_{"--run.steps=1000000", "--optimizer.decay=constant"};
  PosixFileSystem fs_;
  test::TrainFolder folder_;
};

// B90, B91: all the signals that schedulers send; more of them while it saves change nothing.
TEST_F(Stop, SignalsThatGoOnComing) {
  for (const int signal : {SIGTERM, SIGUSR2}) {
    auto more = endless_;
    more.push_back("--ranks=2");
    Process process(command({}, more), folder_ / "output");
    wait_for_lines(process, 3);
    while (!process.ended()) kill(process.id(), signal), pause();
    const auto finished = process.wait();
    EXPECT_EQ(finished.code, 75) << finished.output;
    const auto step = saved_step();
    goes_on_from(step, {}, more);
    std::filesystem::remove_all(folder_.run("run"));
  }
}

TEST_F(Stop, TimeLimitOfTheScheduler) {
  auto more = endless_;
  more.push_back("--run.stop_before=1h");
  const auto finished = Process(command({}, more), folder_ / "output", {"SLURM_JOB_END_TIME=1000"}).wait();
  EXPECT_EQ(finished.code, 75) << finished.output;
  EXPECT_EQ(list_steps(fs_, folder_.run("run") / "checkpoints").size(), 1u);
}

// The descendants of a process that run our program.
std::vector<pid_t> ranks_of(const Process& launcher) {
  std::vector<pid_t> out;
  for (const auto child : launcher.children()) {
    std::error_code ignored;
    const auto running = std::filesystem::read_symlink(str("/proc/", child, "/exe"), ignored);
    if (running.filename() == "fivefold") out.push_back(child);
  }
  return out;
}

// B90: one rank of four is told, then another, several times; all save the same step once and leave with 75.
TEST_F(Stop, OneRankOfMpirun) {
  if (!mpi_available()) GTEST_SKIP() << "built without MPI";
  const Words mpirun{"mpirun", "--oversubscribe", "--bind-to", "none", "-np", "4"};
  Process process(command(mpirun, endless_), folder_ / "output");
  wait_for_lines(process, 3);
  const auto ranks = ranks_of(process);
  ASSERT_EQ(ranks.size(), 4u);
  kill(ranks[2], SIGTERM);
  pause();
  kill(ranks[2], SIGTERM);
  kill(ranks[1], SIGTERM);
  const auto finished = process.wait();
  EXPECT_EQ(finished.code, 75) << finished.output;
  const auto step = saved_step();
  EXPECT_EQ(read_manifest(fs_, folder_.checkpoint("run", step)).files.size(), 4u);
  goes_on_from(step, mpirun, endless_);
}

// A user's mistake on every rank is told once, and the job's code is 2.
TEST_F(Stop, WrongUsageUnderMpirun) {
  if (!mpi_available()) GTEST_SKIP() << "built without MPI";
  const Words mpirun{"mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2"};
  for (const auto& [wrong, said] : std::vector<std::pair<std::string, std::string>>{
           {"--train.micro_bacth=2", "the nearest is 'train.micro_batch'"},
           {"--data.train=" + (folder_ / "nowhere").string(), "nowhere"},
           {"--ranks=2", "cannot be used under mpirun"}}) {
    const auto before = folder_.listing().size();
    const auto finished = Process(command(mpirun, {wrong}), folder_ / "output").wait();
    EXPECT_EQ(finished.code, 2) << finished.output;
    const auto first = finished.output.find(said);
    ASSERT_NE(first, std::string::npos) << finished.output;
    EXPECT_EQ(finished.output.find(said, first + 1), std::string::npos) << finished.output;
    std::filesystem::remove(folder_ / "output");
    EXPECT_EQ(folder_.listing().size(), before) << wrong;
  }
}

}  // namespace
}  // namespace fivefold
