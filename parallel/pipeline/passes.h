// Passes over schedules, each a pure function: what the compute actions need around them.
#pragma once
#include "parallel/pipeline/generators.h"
#include "parallel/pipeline/simulate.h"

namespace fivefold {

// Adds sends and receives where consecutive stages live on different ranks. Both ends enter their lists at
// the moment of the simulation (under `costs`) at which the product is made, so all actions of all ranks have
// one global order of which every list is a part; lists that are run strictly in order, even one blocking
// action at a time, cannot deadlock. `schedule` holds compute actions only.
Schedule add_transfers(const Schedule& schedule, const PipelineCosts& costs = {});

struct Reductions {
  bool each_micro_batch = false;  // after every weight gradient, otherwise once a step after the stage's last
  bool tied = false;              // first and last stage share a parameter
};
// Adds reduce_grads. With `tied` the first and the last stage (if they are two) meet at the end of their
// ranks' lists in exchange_tied and reduce after it; with `each_micro_batch` too they then reduce once more,
// as a whole step, for the tied parameter alone.
Schedule add_reductions(const Schedule& schedule, const Reductions& reductions);

// Adds unshard before and reshard after a stage's use of its weights, which ends with its last input gradient
// (the weight half needs none; in an evaluation with its last forward): over the whole step, or with
// `each_use` around each forward and each backward.
Schedule add_unshards(const Schedule& schedule, bool each_use);

// The forwards alone, in the same order: an evaluation.
Schedule forwards_of(const Schedule& schedule);

struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int ranks = 1, chunks = 1, micro_batches = 1;
  Reductions reductions;
  PipelineCosts costs;
};
// What the executor runs: generated, with transfers and reductions, validated and replayed.
Schedule training_schedule(const ScheduleSpec& spec);
// The same without backward.
Schedule evaluation_schedule(const ScheduleSpec& spec);

}  // namespace fivefold
