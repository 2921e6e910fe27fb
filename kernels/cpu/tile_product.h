// Work on small blocks that lie in cache, with the compiler's vector extension: products c (+)= a b with any
// strides of a, so that a and its transpose cost the same, and maxima. On tiles of 64 the products are as
// fast as OpenBLAS's (docs/kernels.md), and their bits do not depend on the machine.
#pragma once
#include <cstdint>
#include <utility>

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

// The vector at p, which need not be aligned to a vector.
template <class A>
typename Vector<A>::type& vector_at(A* p) {
  return *reinterpret_cast<typename Vector<A>::type*>(p);
}
template <class A>
const typename Vector<A>::type& vector_at(const A* p) {
  return *reinterpret_cast<const typename Vector<A>::type*>(p);
}

// One register block: R rows and two vectors of columns.
template <int R, class A>
inline void multiply_register_block(std::int64_t k, const LeftBlock<A>& a, const A* b, std::int64_t ldb, A* c,
                                    std::int64_t ldc, bool add) {
  using V = typename Vector<A>::type;
  constexpr std::int64_t kLanes = Vector<A>::kLanes;
  V sum[R][2];
  for (int r = 0; r < R; ++r)
    for (int h = 0; h < 2; ++h) sum[r][h] = add ? vector_at(c + r * ldc + h * kLanes) : V{};
  for (std::int64_t p = 0; p < k; ++p) {
    const V left = vector_at(b + p * ldb), right = vector_at(b + p * ldb + kLanes);
    for (int r = 0; r < R; ++r) {
      const A scalar = a.data[r * a.row_stride + p * a.k_stride];
      sum[r][0] += scalar * left;
      sum[r][1] += scalar * right;
    }
  }
  for (int r = 0; r < R; ++r)
    for (int h = 0; h < 2; ++h) vector_at(c + r * ldc + h * kLanes) = sum[r][h];
}

// c [m, n] = a [m, k] b [k, n], or += with `add`. n is a multiple of kPanel; ldb and ldc are row strides. c
// overlaps nothing.
template <class A>
void multiply_tile(std::int64_t m, std::int64_t n, std::int64_t k, const LeftBlock<A>& a, const A* b,
                   std::int64_t ldb, A* c, std::int64_t ldc, bool add) {
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
      case 5:
        rows_of(std::integral_constant<int, 5>{});
        break;
      case 4:
        rows_of(std::integral_constant<int, 4>{});
        break;
      case 3:
        rows_of(std::integral_constant<int, 3>{});
        break;
      case 2:
        rows_of(std::integral_constant<int, 2>{});
        break;
      case 1:
        rows_of(std::integral_constant<int, 1>{});
        break;
      default:
        break;
    }
  }
}

// top[l] = max(top[l], x[r * kPanel + l]) over `rows` rows. NaN is passed over.
template <class A>
void raise_panel(std::int64_t rows, const A* x, A* top) {
  using V = typename Vector<A>::type;
  constexpr std::int64_t kLanes = Vector<A>::kLanes, kVectors = kPanel / kLanes;
  V now[kVectors];
  for (std::int64_t i = 0; i < kVectors; ++i) now[i] = vector_at(top + i * kLanes);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < kVectors; ++i) {
      const V other = vector_at(x + r * kPanel + i * kLanes);
      now[i] = now[i] < other ? other : now[i];
    }
  for (std::int64_t i = 0; i < kVectors; ++i) vector_at(top + i * kLanes) = now[i];
}

}  // namespace fivefold::cpu
