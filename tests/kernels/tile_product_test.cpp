// Small products against plain loops, for every remainder of rows and any strides of the left operand.
#include "kernels/cpu/tile_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/philox.h"

namespace fivefold::cpu {
namespace {

template <class A>
std::vector<A> random_numbers(std::int64_t count, std::uint64_t stream) {
  std::vector<A> numbers(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<A>(philox_normal(1, stream, i));
  return numbers;
}

// Error of one product, in units of the arithmetic's epsilon times the sum of the magnitudes.
template <class A>
double error_of(std::int64_t m, std::int64_t n, std::int64_t k, bool transposed, bool add) {
  const std::int64_t row_stride = transposed ? 1 : k + 3, k_stride = transposed ? m + 2 : 1;
  const std::int64_t ldb = n + 5, ldc = n + 1;
  const auto a = random_numbers<A>((m + 3) * (k + 3), 1), b = random_numbers<A>((k + 1) * ldb, 2);
  auto c = random_numbers<A>(m * ldc, 3);
  const auto before = c;
  multiply_tile<A>(m, n, k, {a.data(), row_stride, k_stride}, b.data(), ldb, c.data(), ldc, add);
  double worst = 0;
  for (std::int64_t i = 0; i < m * ldc; ++i) {
    const std::int64_t row = i / ldc, col = i % ldc;
    const auto at = static_cast<std::size_t>(i);
    if (col >= n) {
      EXPECT_EQ(c[at], before[at]);
      continue;
    }
    double sum = add ? before[at] : 0, size = std::abs(sum);
    for (std::int64_t p = 0; p < k; ++p) {
      const double term = static_cast<double>(a[static_cast<std::size_t>(row * row_stride + p * k_stride)]) *
                          static_cast<double>(b[static_cast<std::size_t>(p * ldb + col)]);
      sum += term;
      size += std::abs(term);
    }
    worst =
        std::max(worst, std::abs(c[at] - sum) / (std::numeric_limits<A>::epsilon() * std::max(size, 1e-300)));
  }
  return worst;
}

template <class A>
void check_all_shapes() {
  for (std::int64_t m = 1; m <= 13; ++m)
    for (const std::int64_t k : {0, 1, 7})
      for (const bool transposed : {false, true})
        for (const bool add : {false, true})
          EXPECT_LE(error_of<A>(m, 2 * kPanel, k, transposed, add), static_cast<double>(k + 1))
              << m << ' ' << k;
}

TEST(TileProduct, F32) { check_all_shapes<float>(); }
TEST(TileProduct, F64) { check_all_shapes<double>(); }

}  // namespace
}  // namespace fivefold::cpu
