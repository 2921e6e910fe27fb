// One parameter as a rank holds it: a stable name and global shape, the box that kernels see and the box that
// lives between steps. Names and shapes are the same in every layout.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "parallel/mesh/partition.h"

namespace fivefold {

struct Param {
  std::string name;            // "blocks.3.attn.q.weight"
  Shape global;                // whole tensor
  int index = 0;               // in the model's global parameter order
  bool decay = true;           // weight decay applies
  bool products_only = false;  // gradients come from matrix products alone, which round once a sum
  View view = View::dense;
  PartitionSpec compute;  // cut by tp or ep only
  PartitionSpec storage;  // compute, then the storage axes on dim 0
  Box compute_box, storage_box;
  // Valid while the unit that owns the parameter is whole.
  Tensor weight;    // compute box, compute dtype
  Tensor gradient;  // compute box; backward_weight adds into it
  bool fresh =
      false;  // with products_only: the gradient is zero, but its memory was not cleared; see first_sum
  bool tied = false;  // used twice on this rank (embedding and head): one gradient buffer per use, added once
  Tensor tied_gradient;  // of the second use
  bool tied_across =
      false;  // the two uses are on the first and the last pp rank: both hold it and sum its gradient
};

// True where a product must write the gradients instead of adding to them: nothing of the sum is there yet.
// What is written counts as there from now on. Parameters of one product.
bool first_sum(std::span<Param* const> params);

// The axes over which storage cuts dim 0: {shard, cp}, for experts {edp}.
std::vector<Axis> storage_axes(View view);
// The axes of the view that neither compute nor storage cut: a reduced gradient is summed over them too. An
// axis that is cut in fewer parts than it has ranks (kv heads under a larger tp) counts with the neighbours
// that share a part.
struct ReplicaAxes {
  std::vector<Axis> axes;
  int parts = 0;  // of the last axis; 0: not cut
};
ReplicaAxes replica_axes(const Param& param, const MeshLayout& mesh);
// Fills storage and both boxes from name, global, view and compute.
void place(Param& param, const MeshLayout& mesh, int position);

}  // namespace fivefold
