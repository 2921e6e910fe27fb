// The learning rate as a pure function of the number of applied updates. Nothing is stored but that number.
#pragma once
#include "model/config.h"

namespace fivefold {

struct LrSchedule {
  double lr = 0;                  // peak
  double min_lr = 0;              // reached at the end of the decay
  std::int64_t warmup_steps = 0;  // linear from lr/warmup_steps at the first update to lr
  LrDecay decay = LrDecay::constant;
  std::int64_t decay_steps =
      0;  // cosine, linear: updates from the end of warmup to min_lr; wsd: length of the final decay
  std::int64_t total_steps = 0;  // wsd: updates of the whole run, at whose end the decay ends
};

// Rate of update `step`, counted from 0 (the first update). After the decay it stays at min_lr.
double lr_at(const LrSchedule& schedule, std::int64_t step);

}  // namespace fivefold
