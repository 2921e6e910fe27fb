// Warmup, then constant, cosine (Loshchilov & Hutter 2017), linear, or warmup-stable-decay (Hu et al. 2024).
#include "model/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fivefold {

namespace {

// Part of a decay that lies behind, in [0, 1].
double progress(std::int64_t step, std::int64_t begin, std::int64_t length) {
  if (length <= 0) return step >= begin ? 1.0 : 0.0;
  return std::clamp(static_cast<double>(step - begin) / static_cast<double>(length), 0.0, 1.0);
}

}  // namespace

double lr_at(const LrSchedule& s, std::int64_t step) {
  if (step < s.warmup_steps)
    return s.lr * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  const double span = s.lr - s.min_lr;
  switch (s.decay) {
    case LrDecay::constant:
      return s.lr;
    case LrDecay::cosine:
      return s.min_lr +
             0.5 * span * (1 + std::cos(std::numbers::pi * progress(step, s.warmup_steps, s.decay_steps)));
    case LrDecay::linear:
      return s.lr - span * progress(step, s.warmup_steps, s.decay_steps);
    case LrDecay::wsd:
      return s.lr - span * progress(step, s.total_steps - s.decay_steps, s.decay_steps);
  }
  return s.lr;
}

}  // namespace fivefold
