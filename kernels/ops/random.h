// Random numbers as pure functions of their place: initial weights.
#pragma once
#include "core/tensor.h"

namespace fivefold {

// x[r, c] = mean + spread * z(first + r * stride + c), rounded once, where z(i) is element i of the standard
// normal sequence (seed, sequence) of core/philox.h in f64. A box of a larger tensor of `stride` columns so
// gets its part of what the whole would get. Devices may differ in the last place of z.
struct RandomNormal {
  static constexpr std::string_view kName = "random_normal";
  Tensor x;  // [R, C] floating
  std::uint64_t seed = 0, sequence = 0;
  std::int64_t first = 0, stride = 0;
  double mean = 0, spread = 1;
  void check() const;
  double flops() const;
  double bytes() const;
};

}  // namespace fivefold
