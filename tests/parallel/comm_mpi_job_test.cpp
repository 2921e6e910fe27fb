// Whole MPI jobs that fail: every process is gone soon, the first error is told once with its rank, and the
// exit code says what kind it was. Starts test_mpi, which lies beside this program, with --fail.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "parallel/comm/mpi_comm.h"

namespace fivefold {
namespace {

struct Job {
  int exit_code = -1;
  std::string output;
  std::chrono::steady_clock::duration time{};
};

Job run_job(const std::string& fail) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "test_mpi";
  const auto command =
      str("mpirun --oversubscribe --bind-to none -np 3 ", program, " --fail=", fail, " 2>&1");
  const auto start = std::chrono::steady_clock::now();
  Job job;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> chunk{};
  while (std::fgets(chunk.data(), chunk.size(), pipe)) job.output += chunk.data();
  const int status = pclose(pipe);
  job.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  job.time = std::chrono::steady_clock::now() - start;
  return job;
}

int times(const std::string& text, const std::string& part) {
  int n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

struct Expected {
  std::string fail;
  int exit_code;
  std::string told_once;
};

// B85: a rank that fails in any way takes the others with it.
TEST(MpiJob, EndsTogetherWhenARankFails) {
  if (!mpi_available()) GTEST_SKIP() << "built without MPI";
  for (const auto& expected :
       {Expected{"2,error", 1, "rank 2: a broken invariant"},
        Expected{"1,user", 2, "rank 1: a user's mistake"}, Expected{"0,all", 2, ": a user's mistake"},
        Expected{"1,abort", 1, "rank 1: told to"}, Expected{"1,exit", 3, ""}, Expected{"2,kill", 137, ""},
        Expected{"0,stop", 1, "world rank 0 does not answer"},
        Expected{"2,stop", 1, "world rank 2 does not answer"},
        Expected{"1,late", 1, "world rank 1 never launched it and is in data/next_batch"}}) {
    const auto job = run_job(expected.fail);
    EXPECT_EQ(job.exit_code, expected.exit_code) << expected.fail << "\n" << job.output;
    if (!expected.told_once.empty()) {
      EXPECT_EQ(times(job.output, expected.told_once), 1) << job.output;
    }
    EXPECT_LT(job.time, std::chrono::seconds(30)) << expected.fail;
  }
}

}  // namespace
}  // namespace fivefold
