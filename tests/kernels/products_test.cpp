// Matrix products where one case is not enough: long accumulation, garbage in unused rows, many shapes on one
// backend.
#include <limits>

#include "tests/kernels/cpu_fixture.h"

namespace fivefold {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class ProductsTest : public CpuFixture {};

// B52: 512 weight gradients of 1 are 512, and 4096 + 1 is 4097; bf16 sums would stop at 256.
TEST_F(ProductsTest, WeightGradientsAddUpInF32) {
  const auto one = filled({1, 1}, DType::bf16, 1), sum = filled({1, 1}, DType::f32, 0);
  const Gemm gemm{.a = one, .b = one, .c = sum, .bias = {}, .transpose_a = true, .beta = 1.0};
  for (int i = 0; i < 512; ++i) run(gemm);
  EXPECT_EQ(get(sum, 0), 512);
  put(sum, 0, 4096);
  run(gemm);
  EXPECT_EQ(get(sum, 0), 4097);
}

// B46: the weight gradient of a group without rows is exactly zero in memory that held NaN.
TEST_F(ProductsTest, EmptyGroupsWriteZeros) {
  for (const auto dtype : {DType::f64, DType::f32, DType::bf16}) {
    const auto c = tensor({3 * 4, 5}, accum_dtype(dtype));
    run(GroupedGemm{.a = normal({6, 4}, dtype, 1, 1),
                    .b = normal({6, 5}, dtype, 1, 2),
                    .c = c,
                    .offsets = tensor({4}, DType::i32, {0, 3, 3, 6}),
                    .side = GroupedSide::weight});
    EXPECT_EQ(numbers(c.rows(4, 8)), Numbers(20, 0.0)) << dtype;
    for (const double x : numbers(c)) EXPECT_TRUE(std::isfinite(x)) << dtype;
  }
}

// B47: rows behind the last group may hold anything.
TEST_F(ProductsTest, SpareRowsDoNotCount) {
  const auto a = filled({4, 2}, DType::f32, 1), b = filled({4, 3}, DType::f32, 2),
             c = tensor({2, 3}, DType::f32);
  for (std::int64_t i = 0; i < 2; ++i) put(a, 6 + i, kNaN);
  for (std::int64_t i = 0; i < 3; ++i) put(b, 9 + i, kNaN);
  const auto offsets = tensor({2}, DType::i32, {0, 3});
  run(GroupedGemm{.a = a, .b = b, .c = c, .offsets = offsets, .side = GroupedSide::weight});
  EXPECT_EQ(numbers(c), Numbers(6, 6.0));
}

TEST_F(ProductsTest, OffsetsOutsideOfTheRowsAreRefused) {
  const auto a = filled({4, 2}, DType::f32, 1), c = tensor({4, 3}, DType::f32),
             b = filled({6, 2}, DType::f32, 1);
  for (const Numbers& offsets : {Numbers{0, 2, 5}, Numbers{0, 3, 2}, Numbers{-1, 2, 4}})
    EXPECT_THROW(run(GroupedGemm{.a = a, .b = b, .c = c, .offsets = tensor({3}, DType::i32, offsets)}),
                 Error);
}

// More shapes than compiled products are kept.
TEST_F(ProductsTest, ManyShapes) {
  for (int round = 0; round < 2; ++round)
    for (std::int64_t m = 1; m <= 300; ++m) {
      const auto c = tensor({m, 2}, DType::bf16);
      run(Gemm{.a = filled({m, 3}, DType::bf16, 1), .b = filled({3, 2}, DType::bf16, 2), .c = c, .bias = {}});
      ASSERT_EQ(get(c, 2 * m - 1), 6) << m;
    }
}

}  // namespace
}  // namespace fivefold
