// exp of f32 over its whole range, and sums in lanes.
#include "kernels/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <limits>

namespace fivefold::cpu {
namespace {

// Every 4099th float of both signs: 1.05 million numbers.
TEST(VectorMath, ExpIsWithinTwoUlps) {
  double worst = 0;
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 4099) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits)), y = exp_of(x);
    const double exact = std::exp(static_cast<double>(x));
    const float nearest = static_cast<float>(exact);
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(y));
    } else if (std::isinf(nearest)) {
      ASSERT_TRUE(std::isinf(y)) << x;
    } else {
      const double ulp =
          static_cast<double>(std::nextafter(nearest, std::numeric_limits<float>::infinity())) - nearest;
      worst = std::max(worst, std::abs(y - exact) / ulp);
    }
  }
  EXPECT_LE(worst, 1.1);
}

TEST(VectorMath, ExpAtTheEdges) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exp_of(0.0f), 1.0f);
  EXPECT_EQ(exp_of(-infinity), 0.0f);
  EXPECT_EQ(exp_of(infinity), infinity);
  EXPECT_EQ(exp_of(-200.0f), 0.0f);
  EXPECT_TRUE(std::isnan(exp_of(std::numeric_limits<float>::quiet_NaN())));
}

TEST(VectorMath, SigmoidKeepsItsSlopeNearOne) {
  const auto s = sigmoid_slope_of(20.0f);
  EXPECT_FLOAT_EQ(s.value, 1.0f);
  EXPECT_FLOAT_EQ(s.slope, std::exp(-20.0f));
  EXPECT_EQ(sigmoid_slope_of(-200.0f).slope, 0.0f);
}

TEST(VectorMath, LaneSumTakesEveryElementOnce) {
  for (std::int64_t n : {0, 1, 15, 16, 17, 100})
    EXPECT_EQ(lane_sum<double>(n, [](std::int64_t i) { return static_cast<double>(i + 1); }),
              static_cast<double>(n * (n + 1) / 2));
}

}  // namespace
}  // namespace fivefold::cpu
