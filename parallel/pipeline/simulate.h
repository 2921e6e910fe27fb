// How long a schedule takes and what it holds, under costs per stage: what `fivefold plan` shows.
#pragma once
#include <span>

#include "parallel/pipeline/schedule.h"

namespace fivefold {

// Time of one micro-batch, in any unit, above zero. A whole backward takes input + weight. The last stage's
// costs include the head.
struct StageCosts {
  double forward = 1, input = 1, weight = 1;
};
struct PipelineCosts {
  std::vector<StageCosts> stages;  // by stage; empty: all alike
  double transfer = 0;             // until what one rank made is on another
  StageCosts of(int stage) const { return stages.empty() ? StageCosts{} : stages[stage]; }
};
double duration_of(const Action& action, const PipelineCosts& costs);  // of a compute action

// What a stage holds of one micro-batch, in any unit (1: count micro-batches of a stage).
struct StageMemory {
  double before_input = 1;   // from forward until the gradient of the input is made
  double before_weight = 1;  // from then until the weight gradient is made; nothing after a whole backward
};

struct TimedAction {
  Action action;
  double begin = 0, end = 0;
};

// Largest amounts held at one time; `together` is the peak of the sum, not the sum of the peaks.
struct PipelinePeak {
  double before_input = 0, before_weight = 0, together = 0;
};

struct Simulation {
  double makespan = 0;
  std::vector<std::vector<TimedAction>> timeline;  // compute actions by rank
  std::vector<double> busy;                        // by rank
  std::vector<PipelinePeak> peaks;                 // by rank
  // The idle share of ranks x makespan.
  double bubble() const;
  // Over all ranks.
  PipelinePeak largest_peak() const;
};

// Every rank runs its list in order, each compute action as soon as its inputs are there; other actions take
// no time. `memory` by stage, empty for 1 each. Throws Error with the lists and where they stopped if they
// cannot finish.
Simulation simulate(const Schedule& schedule, const PipelineCosts& costs = {},
                    std::span<const StageMemory> memory = {});

}  // namespace fivefold
