// Edit distance and the nearest known name.
#include "core/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace fivefold {
namespace {

TEST(Nearest, DistanceCountsOneForEachKindOfEdit) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("steps", "step"), 1);
  EXPECT_EQ(edit_distance("stps", "steps"), 1);
  EXPECT_EQ(edit_distance("stups", "steps"), 1);
  EXPECT_EQ(edit_distance("setps", "steps"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("ca", "abc"), 3);  // optimal string alignment never edits a swapped pair again
}

TEST(Nearest, DistanceIsSymmetric) {
  const std::vector<std::string> words = {"", "lr", "min_lr", "warmup_steps", "decay_steps", "decay"};
  for (const auto& a : words)
    for (const auto& b : words) EXPECT_EQ(edit_distance(a, b), edit_distance(b, a)) << a << ' ' << b;
}

TEST(Nearest, PicksTheClosestAndTheFirstOfEquals) {
  const std::vector<std::string> names = {"--out", "--valid-out", "--valid-fraction", "--separator"};
  EXPECT_EQ(nearest_name("--seperator", names), "--separator");
  EXPECT_EQ(nearest_name("--valid-fractoin", names), "--valid-fraction");
  EXPECT_EQ(nearest_name("--otu", names), "--out");
  const std::vector<std::string> equals = {"ab", "ac"};
  EXPECT_EQ(nearest_name("a", equals), "ab");
  EXPECT_EQ(nearest_name("a", {}), "");
}

}  // namespace
}  // namespace fivefold
