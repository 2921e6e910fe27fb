// Element-wise work: activations, sums, casts. Arithmetic in the accumulate dtype, one rounding per output.
#pragma once
#include "core/tensor.h"

namespace fivefold {

// y = silu(gate) * up, with x = [gate | up] along the row (Shazeer 2020).
struct SwigluForward {
  static constexpr std::string_view kName = "swiglu_forward";
  Tensor x;  // [T, 2F]
  Tensor y;  // [T, F]
  void check() const;
  double flops() const;
  double bytes() const;
};
struct SwigluBackward {
  static constexpr std::string_view kName = "swiglu_backward";
  Tensor x;   // [T, 2F]
  Tensor dy;  // [T, F]
  Tensor dx;  // [T, 2F]; may be x's memory
  void check() const;
  double flops() const;
  double bytes() const;
};

// Tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks & Gimpel 2016).
struct GeluForward {
  static constexpr std::string_view kName = "gelu_forward";
  Tensor x, y;  // [T, F]
  void check() const;
  double flops() const;
  double bytes() const;
};
struct GeluBackward {
  static constexpr std::string_view kName = "gelu_backward";
  Tensor x, dy, dx;  // [T, F]; dx may be x's or dy's memory
  void check() const;
  double flops() const;
  double bytes() const;
};

// out = a + b, same shape and dtype; out may be either's memory.
struct Add {
  static constexpr std::string_view kName = "add";
  Tensor a, b, out;
  void check() const;
  double flops() const;
  double bytes() const;
};

// y = x converted to y's dtype (one rounding), or y += x when `accumulate`. Same element count.
struct Convert {
  static constexpr std::string_view kName = "convert";
  Tensor x, y;
  bool accumulate = false;
  void check() const;
  double flops() const;
  double bytes() const;
};

// x = value, any floating dtype.
struct Fill {
  static constexpr std::string_view kName = "fill";
  Tensor x;
  double value = 0;
  void check() const;
  double flops() const;
  double bytes() const;
};

}  // namespace fivefold
