// Rotary frequencies and tables against the published rules, computed here straight from their formulas.
#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace fivefold {
namespace {

ModelConfig config_of(std::int64_t head_dim, double theta, RopeScaling scaling = {}) {
  ModelConfig c;
  c.head_dim = head_dim;
  c.rope_theta = theta;
  c.rope_scaling = scaling;
  return c;
}

double plain(std::int64_t pair, std::int64_t head_dim, double theta) {
  return 1 / std::pow(theta, 2.0 * static_cast<double>(pair) / static_cast<double>(head_dim));
}

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], 1e-14 * std::abs(wanted[i])) << i;
}

TEST(Rope, PlainFrequenciesFallFromOneByTheta) {
  const auto f = rope_frequencies(config_of(8, 10000));
  expect_near(f, {1, 0.1, 0.01, 0.001});
}

TEST(Rope, LinearDividesAll) {
  const auto f = rope_frequencies(config_of(4, 100, {.type = RopeScalingType::linear, .factor = 4}));
  expect_near(f, {0.25, 0.025});
}

// Llama 3.1's rule, branch by branch: short waves kept, long ones divided, those between blended linearly in
// turns.
TEST(Rope, Llama3KeepsStretchesAndBlends) {
  const RopeScaling s{.type = RopeScalingType::llama3,
                      .factor = 8,
                      .original_context = 64,
                      .low_freq_factor = 1,
                      .high_freq_factor = 4};
  const auto f = rope_frequencies(config_of(16, 500, s));
  std::vector<double> wanted;
  int kept = 0, stretched = 0, blended = 0;
  for (std::int64_t i = 0; i < 8; ++i) {
    const double w = plain(i, 16, 500), turns = 64 * w / (2 * std::numbers::pi);
    if (turns > 4) {
      wanted.push_back(w), ++kept;
    } else if (turns < 1) {
      wanted.push_back(w / 8), ++stretched;
    } else {
      const double smooth = (turns - 1) / (4 - 1);
      wanted.push_back((1 - smooth) * w / 8 + smooth * w), ++blended;
    }
  }
  EXPECT_TRUE(kept > 0 && stretched > 0 && blended > 0) << kept << ' ' << stretched << ' ' << blended;
  expect_near(f, wanted);
}

// YaRN: pair i is kept below the border of beta_fast turns, stretched above that of beta_slow, a ramp over i
// between.
TEST(Rope, YarnRampsOverThePairs) {
  for (const bool truncate : {true, false}) {
    const RopeScaling s{.type = RopeScalingType::yarn,
                        .factor = 4,
                        .original_context = 64,
                        .beta_fast = 8,
                        .beta_slow = 1,
                        .truncate = truncate};
    const auto border = [](double turns) {
      return 32 * std::log(64 / (turns * 2 * std::numbers::pi)) / (2 * std::log(1000.0));
    };
    double low = border(8), high = border(1);
    if (truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0);
    ASSERT_LT(high, 15);
    std::vector<double> wanted;
    for (std::int64_t i = 0; i < 16; ++i) {
      const double ramp = std::min(1.0, std::max(0.0, (static_cast<double>(i) - low) / (high - low)));
      const double w = plain(i, 32, 1000);
      wanted.push_back(w / 4 * ramp + w * (1 - ramp));
    }
    expect_near(rope_frequencies(config_of(32, 1000, s)), wanted);
  }
}

TEST(Rope, YarnScalesCosAndSin) {
  RopeScaling s{.type = RopeScalingType::yarn, .factor = 4, .original_context = 64};
  EXPECT_DOUBLE_EQ(rope_attention_factor(config_of(32, 1000, s)), 0.1 * std::log(4.0) + 1);
  s.attention_factor = 1.5;
  EXPECT_EQ(rope_attention_factor(config_of(32, 1000, s)), 1.5);
  s.type = RopeScalingType::linear;
  EXPECT_EQ(rope_attention_factor(config_of(32, 1000, s)), 1);
  EXPECT_EQ(rope_attention_factor(config_of(32, 1000)), 1);
}

TEST(Rope, TablesArePositionTimesFrequency) {
  const RopeScaling s{
      .type = RopeScalingType::yarn, .factor = 4, .original_context = 16, .attention_factor = 1.25};
  const auto config = config_of(6, 50, s);
  const auto tables = rope_tables(config, 9);
  const auto f = rope_frequencies(config);
  ASSERT_EQ(tables.cos.size(), 27u);
  ASSERT_EQ(tables.sin.size(), 27u);
  for (std::size_t p = 0; p < 9; ++p)
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(tables.cos[p * 3 + i], 1.25 * std::cos(static_cast<double>(p) * f[i]));
      EXPECT_EQ(tables.sin[p * 3 + i], 1.25 * std::sin(static_cast<double>(p) * f[i]));
    }
}

}  // namespace
}  // namespace fivefold
