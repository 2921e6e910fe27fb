// Halves of an f32: nearest, and one to one.
#include "core/split_f32.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fivefold {
namespace {

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

// All lower halves under upper halves of every exponent and sign, the ends of each among them: 2^26 numbers.
TEST(SplitF32, JoinsToTheSameBits) {
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    const auto mantissa = upper & 0x7f;
    if (mantissa != 0 && mantissa != 1 && mantissa != 0x7e && mantissa != 0x7f) continue;
    std::uint32_t wrong = 0;
    for (std::uint32_t lower = 0; lower < 0x10000; ++lower) {
      const auto bits = upper << 16 | lower;
      const auto halves = split(from_bits(bits));
      const auto back = bits_of(join(halves.upper, halves.remainder));
      const bool nan = (bits & 0x7fffffff) > 0x7f800000;
      wrong += back != (nan ? 0x7fc00000 : bits);
    }
    ASSERT_EQ(wrong, 0u) << "upper half " << upper;
  }
}

TEST(SplitF32, NoOtherHalvesMakeTheSameNumber) {
  for (const std::uint32_t upper : {0x3f80u, 0x3f81u, 0x0001u, 0x807fu, 0x7f7fu})
    for (int remainder = -32768; remainder < 32768; ++remainder) {
      bf16 half;
      half.bits = static_cast<std::uint16_t>(upper);
      const auto again = split(join(half, static_cast<std::int16_t>(remainder)));
      ASSERT_EQ(again.remainder, remainder);
      ASSERT_EQ(again.upper.bits, upper);
    }
}

TEST(SplitF32, UpperHalfIsNearestAndTiesGoAwayFromZero) {
  EXPECT_EQ(split(from_bits(0x3f807fff)).upper.bits, 0x3f80);
  EXPECT_EQ(split(from_bits(0x3f808000)).upper.bits, 0x3f81);  // bf16() stays at the even 3f80
  EXPECT_EQ(split(from_bits(0x3f818000)).upper.bits, 0x3f82);
  EXPECT_EQ(split(from_bits(0xbf808000)).upper.bits, 0xbf81);
  EXPECT_EQ(split(from_bits(0x7f7f8000)).upper.bits, 0x7f80);  // infinity, as with ties to even
  for (std::uint32_t bits = 1; bits < 0x7f7f8000; bits += 40'503) {
    if ((bits & 0xffff) == 0x8000) continue;
    ASSERT_EQ(split(from_bits(bits)).upper.bits, bf16(from_bits(bits)).bits) << bits;
  }
}

TEST(SplitF32, NanStaysNan) {
  for (const std::uint32_t bits : {0x7fffffffu, 0xffffffffu, 0x7f800001u, 0xff80ffffu, 0x7fc00000u}) {
    const auto halves = split(from_bits(bits));
    EXPECT_TRUE(std::isnan(static_cast<float>(halves.upper))) << bits;
    EXPECT_TRUE(std::isnan(join(halves.upper, halves.remainder))) << bits;
  }
}

}  // namespace
}  // namespace fivefold
