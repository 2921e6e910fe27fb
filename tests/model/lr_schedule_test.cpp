// The learning rate as a table: step -> rate, with the edges of warmup, decay and what comes behind them.
#include "model/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace fivefold {
namespace {

using Table = std::vector<std::pair<std::int64_t, double>>;

void expect_rates(const LrSchedule& schedule, const Table& table) {
  for (const auto& [step, rate] : table) EXPECT_DOUBLE_EQ(lr_at(schedule, step), rate) << "update " << step;
}

TEST(LrSchedule, WarmupRisesToThePeakWithItsLastUpdate) {
  expect_rates({.lr = 8, .warmup_steps = 4}, {{0, 2}, {1, 4}, {2, 6}, {3, 8}, {4, 8}, {1'000'000, 8}});
  expect_rates({.lr = 8, .warmup_steps = 1}, {{0, 8}, {1, 8}});
  expect_rates({.lr = 8, .warmup_steps = 0}, {{0, 8}});
}

TEST(LrSchedule, LinearFallsToTheMinimumAndStaysThere) {
  expect_rates({.lr = 10,
                .min_lr = 2,
                .warmup_steps = 2,
                .decay = LrDecay::linear,
                .decay_steps = 8,
                .total_steps = 10},
               {{0, 5}, {1, 10}, {2, 10}, {3, 9}, {6, 6}, {9, 3}, {10, 2}, {11, 2}, {500, 2}});
}

TEST(LrSchedule, CosineFallsToTheMinimumAndStaysThere) {
  const LrSchedule s{.lr = 10,
                     .min_lr = 2,
                     .warmup_steps = 2,
                     .decay = LrDecay::cosine,
                     .decay_steps = 8,
                     .total_steps = 10};
  const auto at = [](double part) { return 2 + 4 * (1 + std::cos(std::numbers::pi * part)); };
  expect_rates(s, {{1, 10}, {2, 10}, {4, at(0.25)}, {6, 6}, {8, at(0.75)}, {10, 2}, {99, 2}});
}

TEST(LrSchedule, StableThenDecayEndsWithTheRun) {
  expect_rates(
      {.lr = 10, .min_lr = 2, .warmup_steps = 2, .decay = LrDecay::wsd, .decay_steps = 4, .total_steps = 12},
      {{0, 5}, {2, 10}, {8, 10}, {9, 8}, {10, 6}, {11, 4}, {12, 2}, {13, 2}});
}

// A decay of no length falls at once; a warmup as long as the run never leaves it.
TEST(LrSchedule, Edges) {
  for (const auto decay : {LrDecay::cosine, LrDecay::linear})
    expect_rates(
        {.lr = 10, .min_lr = 2, .warmup_steps = 3, .decay = decay, .decay_steps = 0, .total_steps = 3},
        {{2, 10}, {3, 2}});
  expect_rates({.lr = 10, .min_lr = 2, .decay = LrDecay::wsd, .decay_steps = 0, .total_steps = 5},
               {{4, 10}, {5, 2}});
  expect_rates({.lr = 0, .min_lr = 0, .decay = LrDecay::cosine, .decay_steps = 4}, {{0, 0}, {2, 0}, {9, 0}});
}

// Steps beyond 32 bits keep their meaning.
TEST(LrSchedule, LongRuns) {
  const std::int64_t long_run = std::int64_t{1} << 40;
  expect_rates({.lr = 4, .decay = LrDecay::linear, .decay_steps = long_run, .total_steps = long_run},
               {{long_run / 4, 3}, {long_run / 2, 2}, {long_run, 0}});
}

}  // namespace
}  // namespace fivefold
