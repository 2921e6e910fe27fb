// One optimizer step over all shards of a rank: global gradient norm, clip, AdamW, all decided on the device
// and alike on every rank.
#pragma once
#include <vector>

#include "model/stage.h"

namespace fivefold {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1, clip = 1.0;  // clip 0: no clipping
};

// What a step did, known to the host once the device is done.
struct StepReport {
  double grad_norm = 0;      // before clipping
  bool applied = false;      // false: the norm was not finite, nothing changed
  std::int64_t steps = 0;    // applied updates so far
  std::int64_t skipped = 0;  // refused updates so far
};

// Of the elements of StepControl::control.
StepReport report_of(std::span<const double> control);

class Optimizer {
 public:
  Optimizer(const Run& run, AdamWOptions options, int parameter_count);
  // Gradients of `params` (in global order) are complete (FsdpUnit::finish_grads). Collective over the world.
  void step(const Run& run, std::span<ShardedParam* const> params, double lr);
  // Waits for the device.
  StepReport report(const Run& run) const;
  // Applied and refused updates so far, when training goes on from a checkpoint.
  void set_counts(const Run& run, std::int64_t steps, std::int64_t skipped);
  // [StepControl::kCount] f64 on the device, for those who do not wait: see report_of.
  const Tensor& control() const { return control_; }
  // Squares of each parameter's gradient in global order, over all ranks, after step(): [parameter_count]
  // f64.
  const Tensor& squares() const { return sums_; }

 private:
  void global_norm(const Run& run, std::span<ShardedParam* const> params);
  AdamWOptions options_;
  Tensor sums_;     // [parameter_count] f64
  Tensor control_;  // [StepControl::kCount] f64
};

}  // namespace fivefold
