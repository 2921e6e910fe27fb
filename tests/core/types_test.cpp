// dtypes, bf16 rounding and shapes.
#include "core/types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fivefold {
namespace {

TEST(Types, NamesRoundTripAndUnknownOnesAreRefused) {
  for (auto t : {DType::f64, DType::f32, DType::bf16, DType::i32, DType::u8, DType::i16})
    EXPECT_EQ(dtype_from(name_of(t)), t);
  EXPECT_THROW(dtype_from("f16"), UserError);
}

TEST(Types, SizesAndAccumulators) {
  EXPECT_EQ(size_of(DType::f64), 8);
  EXPECT_EQ(size_of(DType::f32), 4);
  EXPECT_EQ(size_of(DType::bf16), 2);
  EXPECT_EQ(size_of(DType::i32), 4);
  EXPECT_EQ(size_of(DType::u8), 1);
  EXPECT_EQ(size_of(DType::i16), 2);
  EXPECT_EQ(sizeof(bf16), 2u);
  EXPECT_EQ(accum_dtype(DType::f64), DType::f64);
  EXPECT_EQ(accum_dtype(DType::bf16), DType::f32);
}

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(Bf16, RoundsToNearestTiesToEven) {
  EXPECT_EQ(bf16(from_bits(0x3f800000)).bits, 0x3f80);  // 1
  EXPECT_EQ(bf16(from_bits(0x3f807fff)).bits, 0x3f80);  // just below the middle
  EXPECT_EQ(bf16(from_bits(0x3f808000)).bits, 0x3f80);  // middle, even below
  EXPECT_EQ(bf16(from_bits(0x3f818000)).bits, 0x3f82);  // middle, even above
  EXPECT_EQ(bf16(from_bits(0x3f808001)).bits, 0x3f81);  // just above the middle
  EXPECT_EQ(bf16(-0.0f).bits, 0x8000);
}

TEST(Bf16, LargeValuesBecomeInfinityAndNanStaysNan) {
  EXPECT_TRUE(std::isinf(static_cast<float>(bf16(std::numeric_limits<float>::max()))));
  EXPECT_TRUE(std::isinf(static_cast<float>(bf16(std::numeric_limits<float>::infinity()))));
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(std::numeric_limits<float>::quiet_NaN()))));
  // A NaN whose payload lies in the dropped half must not turn into infinity.
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(from_bits(0x7f800001)))));
}

TEST(Bf16, EveryValueIsAFixedPoint) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float value = from_bits(bits << 16);
    if (!std::isnan(value)) {
      ASSERT_EQ(bf16(value).bits, bits);
    }
  }
}

TEST(Shape, CountsAndPrints) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.count(), 24);
  EXPECT_EQ(shape.row_count(), 12);
  EXPECT_EQ(shape.tail_count(2), 4);
  EXPECT_EQ(str(shape), "[2, 3, 4]");
  EXPECT_EQ(Shape{}.count(), 1);
  EXPECT_EQ((Shape{5, 0}).count(), 0);
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  EXPECT_THROW((Shape{1, 2, 3, 4, 5}), Error);
}

// B73, B74: element counts beyond 32 bits.
TEST(Shape, CountsIn64Bits) {
  EXPECT_EQ((Shape{65536, 50257}).count(), std::int64_t{3293642752});
  EXPECT_EQ((Shape{1, 3, 1 << 30}).count(), std::int64_t{3221225472});
}

TEST(Types, RoundingHelpers) {
  EXPECT_EQ(round_up(0, 8), 0);
  EXPECT_EQ(round_up(1, 8), 8);
  EXPECT_EQ(round_up(8, 8), 8);
  EXPECT_EQ(ceil_div(7, 3), 3);
  EXPECT_EQ(ceil_div(6, 3), 2);
}

TEST(Types, WithFloatPicksTheTypeAndRefusesOthers) {
  const auto size = [](auto zero) { return sizeof zero; };
  EXPECT_EQ(with_float(DType::f64, size), 8u);
  EXPECT_EQ(with_float(DType::bf16, size), 2u);
  EXPECT_THROW(with_float(DType::i32, size), Error);
}

}  // namespace
}  // namespace fivefold
