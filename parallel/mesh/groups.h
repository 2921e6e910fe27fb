// The groups of ranks that a training run talks over, in the one order in which every rank makes them.
#pragma once
#include "parallel/mesh/mesh.h"

namespace fivefold {

inline std::vector<DeviceMesh::Wanted> training_groups() {
  return {
      {{Axis::tp}, "activations"},                         // rows of column and row linears, vocabulary statistics
      {{Axis::shard, Axis::cp}, "weights"},                // storage of dense parameters
      {{Axis::edp}, "weights"},                            // storage of experts
      {{Axis::replicate}, "weights"},                      // replicas of parameters that tp cuts
      {{Axis::replicate, Axis::tp}, "weights"},            // replicas of parameters that it does not
      {{Axis::replicate, Axis::shard, Axis::cp}, "loss"},  // disjoint tokens of a step
  };
}

}  // namespace fivefold
