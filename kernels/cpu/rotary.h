// The turn of a head by the rotary tables, shared by the ops that apply it.
#pragma once
#include "kernels/ops/attention.h"

namespace fivefold::cpu {

// cos and sin of the positions of a call. Without positions it turns nothing.
template <class A>
class RotaryTable {
 public:
  RotaryTable(const Tensor& position, const Tensor& cos, const Tensor& sin, RopeStyle style) : style_(style) {
    if (!position) return;
    position_ = position.data<std::int32_t>();
    half_ = cos.dim(1);
    cos_ = cos.data<A>();
    sin_ = sin.data<A>();
  }

  // Turns the head x [hd] of row t in place; `direction` -1 turns back.
  void turn(std::int64_t t, A direction, A* x) const {
    if (half_ == 0) return;
    const A* const cos = cos_ + position_[t] * half_;
    const A* const sin = sin_ + position_[t] * half_;
    if (style_ == RopeStyle::half)
      turn_pairs(cos, sin, direction, x, x + half_, 1);
    else
      turn_pairs(cos, sin, direction, x, x + 1, 2);
  }

 private:
  void turn_pairs(const A* cos, const A* sin, A direction, A* first, A* second, std::int64_t stride) const {
    for (std::int64_t i = 0; i < half_; ++i) {
      const A a = first[i * stride], b = second[i * stride], s = direction * sin[i];
      first[i * stride] = a * cos[i] - b * s;
      second[i * stride] = b * cos[i] + a * s;
    }
  }

  RopeStyle style_;
  const std::int32_t* position_ = nullptr;
  const A *cos_ = nullptr, *sin_ = nullptr;
  std::int64_t half_ = 0;
};

}  // namespace fivefold::cpu
