// Multiplication of rows by one number. Arithmetic in the accumulate dtype, one rounding per output.
#pragma once
#include "core/tensor.h"

namespace fivefold {

// y = factor * x; y may be x's memory.
struct ScaleRows {
  static constexpr std::string_view kName = "scale_rows";
  Tensor x;  // [T, D]
  Tensor y;  // [T, D]
  double factor = 1;
  void check() const;
  double flops() const;
  double bytes() const;
};

}  // namespace fivefold
