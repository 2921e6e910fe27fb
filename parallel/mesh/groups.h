// The groups of ranks that a training run talks over, in the one order in which every rank makes them.
#pragma once
#include "parallel/mesh/mesh.h"

namespace fivefold {

// `kv_parts`: parts of k and v over tp, where they are fewer than tp; else 0.
inline std::vector<DeviceMesh::Wanted> training_groups(int kv_parts) {
  std::vector<DeviceMesh::Wanted> groups{
      {{Axis::tp}, "activations"},  // rows of column and row linears, vocabulary statistics
      {.axes = {Axis::cp}, .purpose = "activations", .messages = true},  // keys and values of dealt sequences
      {{Axis::shard, Axis::cp}, "weights"},                              // storage of dense parameters
      {{Axis::edp}, "weights"},                                          // storage of experts
      {{Axis::replicate}, "weights"},                               // replicas of parameters that tp cuts
      {{Axis::replicate, Axis::tp}, "weights"},                     // replicas of parameters that it does not
      {{Axis::replicate, Axis::shard, Axis::cp}, "loss"},           // disjoint tokens of a step
      {.axes = {Axis::pp}, .purpose = "stages", .messages = true},  // what flows between pipeline stages
      {.axes = {Axis::pp}, .purpose = "tied", .ends = true},        // the two holders of a tied embedding
  };
  if (kv_parts > 0) groups.push_back({{Axis::replicate, Axis::tp}, "weights", kv_parts});  // of k and v
  return groups;
}

}  // namespace fivefold
