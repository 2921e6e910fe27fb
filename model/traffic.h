// Closed forms of what one rank puts on the wire in one training step, group by group: what `fivefold plan`
// prints and the ledger of a run must show, byte for byte.
//
// With tp = n, T rows of a micro-batch here (T / n between layers), D = hidden, s and a the sizes of an
// activation and of its accumulate dtype, one move of rows (gather or reduce-scatter) sends u = (n-1) (T/n) D
// s:
//   block       12 u a micro-batch: 4 forward, 4 for the inputs' gradients, 4 for the weights'; 16 u under
//   full recompute embedding   2 u;  head  2 u + (n-1) T 3 a of vocabulary statistics context     see
//   parallel/context/context_attention.h; under full recompute the forward counts twice weights     a gather
//   of a unit sends (S-1) x its padded rows here, S storage ranks; once a step, in ZeRO 3 that frees
//               weights once for each use that finds them gone
//   gradients   a reduction sends (S-1) x padded rows in a, then 2 (R-1)/R of them to the R replicas; once a
//   step, or once a
//               micro-batch (reduce = micro_batch)
//   stages      (T/n) D s for each output and each gradient of an input that goes to another pp rank
#pragma once
#include <string>

#include "model/pipeline_plan.h"
#include "model/stage.h"
#include "parallel/mesh/mesh.h"

namespace fivefold {

// The micro-batches of a step on one rank.
struct StepShape {
  std::int64_t rows = 0;      // of a micro-batch here, padding included: a multiple of tp
  std::int64_t sequence = 0;  // of them, rows of each sequence
};

// Everything that goes over one group. World: no axes, purpose "world".
struct GroupTraffic {
  DeviceMesh::Wanted group;
  int ranks = 1;           // of the group
  std::int64_t bytes = 0;  // this rank sends, under the ring convention of parallel/comm/communicator.h
};

struct TrafficModel {
  const ModelConfig& model;
  const PipelinePlan& pipeline;
  const Schedule& schedule;  // of the step: micro-batches, and the order in which weights are used
  const StageOptions& stage;
  DType dtype = DType::f32;
  StepShape shape;
};

// Of mesh position `position`; groups of one rank and of no bytes are left out.
std::vector<GroupTraffic> step_traffic(const TrafficModel& model, const MeshLayout& mesh, int position);

}  // namespace fivefold
