#include "core/divisors.h"

#include <gtest/gtest.h>

namespace fivefold {
namespace {

TEST(Divisors, NearestDivisor) {
  EXPECT_EQ(nearest_divisor(12, 5), 4);  // 4 and 6 are equally close
  EXPECT_EQ(nearest_divisor(12, 100), 12);
  EXPECT_EQ(nearest_divisor(12, 0), 1);
  EXPECT_EQ(nearest_divisor(7, 3), 1);
  EXPECT_EQ(nearest_divisor(7, 5), 7);
  EXPECT_EQ(nearest_divisor(1, 9), 1);
}

TEST(Divisors, NearestMultiple) {
  EXPECT_EQ(nearest_multiple(4, 65), 64);
  EXPECT_EQ(nearest_multiple(4, 66), 64);
  EXPECT_EQ(nearest_multiple(4, 67), 68);
  EXPECT_EQ(nearest_multiple(4, 1), 4);
  EXPECT_EQ(nearest_multiple(4, -3), 4);
}

}  // namespace
}  // namespace fivefold
