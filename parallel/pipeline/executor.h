// Runs one rank's list of a schedule: the only code that moves tensors between stages.
#pragma once
#include <optional>
#include <span>

#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/stage.h"
#include "parallel/run.h"

namespace fivefold {

// Shapes of what a micro-batch carries from stage to stage; they may differ between micro-batches.
struct CarriedShape {
  Shape rows;
  std::optional<Shape> side;
};

// One step, collective over `pp`, whose size is the schedule's ranks. `stages` are this rank's in ascending
// order, `shapes` one per micro-batch. Transfers start in list order and are waited for where what they bring
// is used, so they overlap; an output is dropped once it is sent: at most two sends are under way. The ledger
// learns stage and micro-batch of everything that is launched. An exception from a stage or a transfer
// becomes an Error (a UserError stays one) that also shows the list and where it stopped.
void run_pipeline(const Run& run, Communicator& pp, const Schedule& schedule,
                  std::span<PipelineStage* const> stages, std::span<const CarriedShape> shapes);

}  // namespace fivefold
