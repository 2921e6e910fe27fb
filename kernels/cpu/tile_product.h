// Products of small blocks that lie in cache: c (+)= a b, with any strides of a, so that a or its transpose costs the same.
// Written with the compiler's vector extension; on tiles of 64 as fast as OpenBLAS (docs/kernels.md), and its bits do not
// depend on the machine.
#pragma once
#include <cstdint>
#include <type_traits>

namespace fivefold::cpu {

template <class A>
struct Vector {
  static constexpr int kBytes = 32;
  static constexpr std::int64_t kLanes = kBytes / static_cast<std::int64_t>(sizeof(A));
  typedef A type __attribute__((vector_size(kBytes), aligned(alignof(A)), may_alias));
};

// b and c have columns in multiples of this many elements (f32: one panel, f64: two).
constexpr std::int64_t kPanel = 16;

// A view of a left operand: element (row, k) is data[row * row_stride + k * k_stride].
template <class A>
struct LeftBlock {
  const A* data;
  std::int64_t row_stride, k_stride;
};

// One register block: R rows and two vectors of columns.
template <int R, class A>
inline void multiply_register_block(std::int64_t k, const LeftBlock<A>& a, const A* b, std::int64_t ldb, A* c,
                                    std::int64_t ldc, bool add) {
  using V = typename Vector<A>::type;
  constexpr std::int64_t kLanes = Vector<A>::kLanes;
  V sum[R][2];
  for (int r = 0; r < R; ++r)
    for (int h = 0; h < 2; ++h) sum[r][h] = add ? *reinterpret_cast<const V*>(c + r * ldc + h * kLanes) : V{};
  for (std::int64_t p = 0; p < k; ++p) {
    const V left = *reinterpret_cast<const V*>(b + p * ldb);
    const V right = *reinterpret_cast<const V*>(b + p * ldb + kLanes);
    for (int r = 0; r < R; ++r) {
      const A scalar = a.data[r * a.row_stride + p * a.k_stride];
      sum[r][0] += scalar * left;
      sum[r][1] += scalar * right;
    }
  }
  for (int r = 0; r < R; ++r)
    for (int h = 0; h < 2; ++h) *reinterpret_cast<V*>(c + r * ldc + h * kLanes) = sum[r][h];
}

// c [m, n] = a [m, k] b [k, n], or += with `add`. n is a multiple of kPanel; ldb and ldc are row strides. c overlaps nothing.
template <class A>
void multiply_tile(std::int64_t m, std::int64_t n, std::int64_t k, const LeftBlock<A>& a, const A* b, std::int64_t ldb, A* c,
                   std::int64_t ldc, bool add) {
  constexpr std::int64_t kColumns = 2 * Vector<A>::kLanes;
  constexpr std::int64_t kRows = 6;  // 12 sums, two vectors of b and one of a fill 15 of 16 registers
  for (std::int64_t col = 0; col < n; col += kColumns) {
    const A* const right = b + col;
    std::int64_t row = 0;
    const auto rows_of = [&](auto count) {
      const LeftBlock<A> left{a.data + row * a.row_stride, a.row_stride, a.k_stride};
      multiply_register_block<decltype(count)::value>(k, left, right, ldb, c + row * ldc + col, ldc, add);
    };
    for (; row + kRows <= m; row += kRows) rows_of(std::integral_constant<int, kRows>{});
    switch (m - row) {
      case 5: rows_of(std::integral_constant<int, 5>{}); break;
      case 4: rows_of(std::integral_constant<int, 4>{}); break;
      case 3: rows_of(std::integral_constant<int, 3>{}); break;
      case 2: rows_of(std::integral_constant<int, 2>{}); break;
      case 1: rows_of(std::integral_constant<int, 1>{}); break;
      default: break;
    }
  }
}

}  // namespace fivefold::cpu
