// Optimizer arithmetic on the boxes a rank owns. All state in the master's dtype (f64 for f64 runs, else
// f32).
#pragma once
#include "core/tensor.h"

namespace fivefold {

// sums[index] += sum of x^2, added in f64.
struct SquaredSum {
  static constexpr std::string_view kName = "squared_sum";
  Tensor x;     // any shape, floating
  Tensor sums;  // [N] f64
  std::int64_t index = 0;
  void check() const;
  double flops() const;
  double bytes() const;
};

// What the whole step shares, computed on the device from the squared sums in ascending order (so every
// layout adds alike): norm = sqrt(total); finite = isfinite(total); factor = clip > 0 ? min(1, clip / (norm +
// 1e-6)) : 1; control[kNorm] = norm, [kFactor] = factor, [kApply] = finite, [kStep] += finite, [kSkipped] +=
// !finite. The square sums of huge gradients: x^2 in f64 holds up to |x| ~ 1e154, so 1e20 is no overflow.
struct StepControl {
  static constexpr std::string_view kName = "step_control";
  static constexpr int kNorm = 0, kFactor = 1, kApply = 2, kStep = 3, kSkipped = 4, kCount = 5;
  Tensor sums;     // [N] f64
  Tensor control;  // [kCount] f64, in and out
  double clip = 0;
  void check() const;
  double flops() const;
  double bytes() const;
};

// AdamW (Loshchilov & Hutter 2019), decoupled decay, with t = control[kStep] (already counting this update):
// g = factor * gradient; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
// p -= lr * (m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps) + decay * p). Nothing changes when control[kApply] is
// 0.
struct AdamW {
  static constexpr std::string_view kName = "adamw";
  Tensor master;    // [n] f64 or f32
  Tensor gradient;  // [n] same dtype as master
  Tensor m, v;      // [n] same dtype
  Tensor compute;   // [n] the dtype the model computes in: written from master; none if master is what it
                    // computes in
  Tensor control;   // [StepControl::kCount] f64
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  void check() const;
  double flops() const;
  double bytes() const;
};

}  // namespace fivefold
