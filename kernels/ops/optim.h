// Optimizer arithmetic on the boxes a rank owns, all of them in one op. State is f64 in f64 runs; else it is
// computed in f32 and stored as the tensors say.
#pragma once
#include <vector>

#include "core/tensor.h"

namespace fivefold {

// sums[part.index] += sum of the part's x^2, added in f64. A part's sum has one order of addition, whatever
// other parts there are.
struct SquaredSum {
  static constexpr std::string_view kName = "squared_sum";
  struct Part {
    Tensor x;  // any shape, floating
    std::int64_t index = 0;
  };
  std::vector<Part> parts;  // of ascending index
  Tensor sums;              // [N] f64
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

// The weights that an optimizer changes, as they are stored. One of
//   master f64 or f32, perhaps with a copy in the dtype that the model computes in;
//   copy bf16 and remainder, which together are an f32 to the last bit (core/split_f32.h);
//   master bf16, which is what the model computes in too: steps below half its last place are lost.
// A bf16 weight is nearest to its number, ties away from zero, so the first two forms have the same copies.
struct StoredMaster {
  Tensor master;     // [n]
  Tensor copy;       // [n]
  Tensor remainder;  // [n] i16
  const Tensor& largest() const { return master ? master : copy; }
  DType arithmetic() const { return accum_dtype(largest().dtype()); }
};

// AdamW (Loshchilov & Hutter 2019), decoupled decay, with t = control[kStep] (already counting this update):
// g = factor * gradient; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
// p -= lr * (m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps) + decay * p). Nothing changes when control[kApply] is
// 0. bf16 moments round to nearest even when they are stored; p follows from those that are not rounded.
struct AdamW {
  static constexpr std::string_view kName = "adamw";
  struct Part {
    StoredMaster weight;  // [n]
    Tensor gradient;      // [n] the dtype of the arithmetic, or bf16 if that is f32
    Tensor m, v;          // [n] both of one of these dtypes
    double weight_decay = 0;
  };
  std::vector<Part> parts;
  Tensor control;  // [StepControl::kCount] f64
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  void check() const;
  double flops() const;
  double bytes() const;
};

// The weight as one tensor, for those who look at it or keep it: value = the master, exactly.
struct ReadMaster {
  static constexpr std::string_view kName = "read_master";
  StoredMaster weight;  // [n]
  Tensor value;         // [n] f64 or f32, the dtype of the arithmetic
  void check() const;
  double flops() const;
  double bytes() const;
};

// The weight from one tensor: master, copy and remainder = what they are of `value`.
struct WriteMaster {
  static constexpr std::string_view kName = "write_master";
  Tensor value;         // [n] f64 or f32, the dtype of the arithmetic
  StoredMaster weight;  // [n]
  void check() const;
  double flops() const;
  double bytes() const;
};

}  // namespace fivefold
