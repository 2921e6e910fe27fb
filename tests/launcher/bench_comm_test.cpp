// `bench comm`: the convention of its bandwidths, what it prints over threads, and the command's mistakes.
#include "launcher/bench_comm.h"

#include <gtest/gtest.h>

#include <sstream>

#include "launcher/bench_command.h"

namespace fivefold {
namespace {

TEST(BenchComm, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor("all_reduce", 8), 1.75);
  EXPECT_DOUBLE_EQ(bus_factor("all_gather", 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor("reduce_scatter", 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor("all_to_all", 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor("send_recv", 8), 1);
}

// Rows of the table as words: operation, bytes, microseconds, algorithm and bus bandwidth.
std::vector<std::vector<std::string>> rows_of(int ranks, const BenchCommOptions& options) {
  std::ostringstream out;
  run_world({.ranks = ranks, .transport = TransportName::thread}, [&](RankContext& context) {
    const auto memory = make_cpu_memory();
    CpuStream stream;
    bench_comm(context, options, *memory, stream, out);
    return 0;
  });
  std::istringstream lines(out.str());
  std::vector<std::vector<std::string>> rows;
  int head = 2;
  for (std::string line; std::getline(lines, line);) {
    if (head-- > 0) continue;
    std::istringstream words(line);
    auto& row = rows.emplace_back();
    for (std::string word; words >> word;) row.push_back(word);
  }
  return rows;
}

TEST(BenchComm, EveryOperationAndSize) {
  const auto rows =
      rows_of(3, {.least_bytes = 100, .most_bytes = 20'000, .factor = 10, .warmup = 1, .iterations = 2});
  ASSERT_EQ(rows.size(), 15u);
  EXPECT_EQ(rows[0][0], "all_reduce");
  EXPECT_EQ(rows[14][0], "send_recv");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].size(), 5u);
    EXPECT_EQ(std::stoi(rows[i][1]) % 12, 0) << "whole elements for each of three ranks";
    EXPECT_LE(std::stoi(rows[i][1]), i % 3 == 0 ? 100 : i % 3 == 1 ? 1000 : 10'000);
    EXPECT_GT(std::stod(rows[i][2]), 0);
  }
}

TEST(BenchComm, OnlyWhatWasAskedForAndAlsoAlone) {
  const auto rows = rows_of(1, {.only = "reduce", .least_bytes = 64, .most_bytes = 64, .iterations = 1});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1][0], "reduce_scatter");
}

std::string mistake(const std::vector<std::string>& args) {
  try {
    bench_command(args);
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

TEST(BenchComm, MistakesAreSentences) {
  const auto expect_in = [](const std::vector<std::string>& args, const std::string& words) {
    EXPECT_NE(mistake(args).find(words), std::string::npos) << mistake(args);
  };
  expect_in({"comm", "--min", "soon"}, "--min takes");
  expect_in({"comm", "--device", "cpu", "--min", "4KiB", "--max", "1KiB"}, "1 <= 4096 <= 1024 must hold");
  expect_in({"comm", "all_reduce", "send"}, "one part of an operation's name");
  expect_in({"comm", "--device", "tpu"}, "--device takes");
  expect_in({"comm", "--ranks", "2", "--transport", "nccl"}, "parallel.transport=nccl");
  expect_in({"comm", "--factor", "1"}, "--factor");
}

}  // namespace
}  // namespace fivefold
