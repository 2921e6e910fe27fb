// Matrix products. Row-major; products accumulate in the accumulate dtype (f64 for f64, else f32) and round
// once into c.
#pragma once
#include "core/tensor.h"

namespace fivefold {

// c = op(a) op(b) + bias + beta * c.   a, b share a floating dtype; c has it too or its accumulate dtype
// (weight gradients).
struct Gemm {
  static constexpr std::string_view kName = "gemm";
  Tensor a;     // [M, K], or [K, M] if transpose_a
  Tensor b;     // [K, N], or [N, K] if transpose_b
  Tensor c;     // [M, N]
  Tensor bias;  // [N] in a's dtype or its accumulate dtype, or none
  bool transpose_a = false;
  bool transpose_b = false;
  double beta = 0.0;  // 0: c is written without being read; 1: added to
  std::int64_t m() const { return c.dim(0); }
  std::int64_t n() const { return c.dim(1); }
  std::int64_t k() const { return transpose_a ? a.dim(0) : a.dim(1); }
  void check() const;
  double flops() const;
  double bytes() const;
};

// One product per group of rows, the groups given on the device. Rows of group g are [offsets[g],
// offsets[g+1]). forward:          c[rows g] = a[rows g] b_g^T     a [R, K], b [G*N, K], c [R, N] input
// gradient:   c[rows g] = a[rows g] b_g       a [R, N], b [G*N, K], c [R, K]   (transpose_b = false)
enum class GroupedSide : std::uint8_t { rows, weight };
// weight gradient:  c_g += a[rows g]^T b[rows g]    a [R, N], b [R, K], c [G*N, K]   (side = weight; groups
// may be empty)
struct GroupedGemm {
  static constexpr std::string_view kName = "grouped_gemm";
  Tensor a, b, c;
  Tensor offsets;  // [G+1] i32, offsets[0] = 0, offsets[G] <= R; rows behind offsets[G] are not touched
  GroupedSide side = GroupedSide::rows;
  bool transpose_b = true;  // side = rows only
  double beta = 0.0;        // as in Gemm
  std::int64_t groups() const { return offsets.dim(0) - 1; }
  void check() const;
  double flops() const;  // counted as if every row belonged to a group
  double bytes() const;
};

// bias_gradient[n] += sum over rows of dy.
struct BiasGradient {
  static constexpr std::string_view kName = "bias_gradient";
  Tensor dy;      // [T, N]
  Tensor d_bias;  // [N] accumulate dtype, added to
  void check() const;
  double flops() const;
  double bytes() const;
};

}  // namespace fivefold
