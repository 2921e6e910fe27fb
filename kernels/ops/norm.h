// Normalisation with the residual sum fused in front. Statistics and products in the accumulate dtype; y
// rounds once. RMSNorm: Zhang & Sennrich 2019, y = x / sqrt(mean(x^2) + eps) * weight. LayerNorm: Ba et al.
// 2016.
#pragma once
#include "core/tensor.h"

namespace fivefold {

// sum = x + delta (when delta is given, rounded to the dtype first); y = norm(sum) * weight (+ bias for
// LayerNorm). Without delta, `sum` is not given either and x itself is normalised.
struct NormForward {
  static constexpr std::string_view kName = "norm_forward";
  Tensor x;       // [T, D]
  Tensor delta;   // [T, D] or none
  Tensor sum;     // [T, D] with delta; may be x's or delta's memory
  Tensor weight;  // [D] in the dtype of x or its accumulate dtype
  Tensor bias;    // [D] as weight, or none; given exactly when `layer`
  Tensor y;       // [T, D]
  Tensor mean;    // [T] accumulate dtype, given exactly when `layer`
  Tensor rstd;    // [T] accumulate dtype
  double eps = 1e-5;
  bool layer = false;  // LayerNorm instead of RMSNorm
  void check() const;
  double flops() const;
  double bytes() const;
};

// dx = residual + d norm / d x (dy). The weight (and bias) gradients are added to.
struct NormBackward {
  static constexpr std::string_view kName = "norm_backward";
  Tensor x;         // [T, D], what was normalised (`sum` of the forward)
  Tensor weight;    // [D] in the dtype of x or its accumulate dtype
  Tensor mean;      // [T] when layer
  Tensor rstd;      // [T]
  Tensor dy;        // [T, D]
  Tensor residual;  // [T, D] gradient that reaches x around the norm, or none
  Tensor dx;        // [T, D]; may be residual's or dy's memory
  Tensor d_weight;  // [D] accumulate dtype, added to
  Tensor d_bias;    // [D] accumulate dtype, added to; when layer
  bool layer = false;
  void check() const;
  double flops() const;
  double bytes() const;
};

}  // namespace fivefold
