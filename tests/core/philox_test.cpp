// Philox4x32-10 against the known answers of its authors (Random123, tests/kat_vectors), and what is made of
// it.
#include "core/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace fivefold {
namespace {

TEST(Philox, KnownAnswers) {
  constexpr auto ones = ~0u;
  EXPECT_EQ(philox(0, PhiloxBlock{0, 0, 0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, PhiloxBlock{ones, ones, ones, ones}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822ull, PhiloxBlock{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, WideCountersAreTheSameWords) {
  EXPECT_EQ(philox(7, 0x85a308d3243f6a88ull, 0x0370734413198a2eull),
            philox(7, PhiloxBlock{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}));
}

// Published FNV-1a values (64 bits). Initial weights depend on them, so they never change.
TEST(Philox, NameHashIsFnv1a) {
  EXPECT_EQ(hash_name(""), 0xcbf29ce484222325ull);
  EXPECT_EQ(hash_name("a"), 0xaf63dc4c8601ec8cull);
  EXPECT_EQ(hash_name("foobar"), 0x85944171f73967e8ull);
}

TEST(Philox, UniformStaysInsideTheOpenInterval) {
  EXPECT_GT(unit_uniform(0), 0.0);
  EXPECT_LT(unit_uniform(~0u), 1.0);
  EXPECT_EQ(unit_uniform(0x80000000u), 0.5 + 0.5 * 0x1p-32);
}

TEST(Philox, NormalHasItsMoments) {
  constexpr std::uint64_t n = 200000;
  double sum = 0, squares = 0, fourth = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double x = philox_normal(3, 5, i);
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  // Four standard errors: 1/sqrt(n), sqrt(2/n), sqrt(96/n).
  EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 4 * std::sqrt(2.0 / n));
  EXPECT_NEAR(fourth / n, 3, 4 * std::sqrt(96.0 / n));
}

TEST(Philox, UniformHasItsMoments) {
  constexpr std::uint64_t n = 200000;
  double sum = 0, squares = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double x = philox_uniform(3, 5, i);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0.5, 4 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(squares / n, 1.0 / 3, 4 * std::sqrt(4.0 / 45 / n));
}

// B32: seeds and names give different values, and a value depends on nothing but (seed, name, element).
TEST(Philox, StreamsDifferAndElementsAreAddressable) {
  const auto name = hash_name("blocks.0.attn.q.weight");
  std::set<double> seen;
  for (std::uint64_t i = 0; i < 1000; ++i) seen.insert(philox_normal(1, name, i));
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_NE(philox_normal(1, name, 0), philox_normal(2, name, 0));
  EXPECT_NE(philox_normal(1, name, 0), philox_normal(1, hash_name("blocks.1.attn.q.weight"), 0));
  EXPECT_EQ(philox_normal(1, name, std::uint64_t{1} << 33), philox_normal(1, name, std::uint64_t{1} << 33));
  EXPECT_NE(philox_normal(1, name, std::uint64_t{1} << 33), philox_normal(1, name, 0));
}

}  // namespace
}  // namespace fivefold
