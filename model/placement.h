// The one table that says how every parameter is cut. Parallel code, gradient sums, the gradient norm,
// initial values and checkpoints all follow from it.
#pragma once
#include <deque>

#include "model/parameters.h"
#include "parallel/mesh/param.h"

namespace fivefold {

// The cuts that kernels see: tp for dense parameters, ep for experts.
PartitionSpec compute_spec(const ParamInfo& info, const ModelConfig& config, const MeshLayout& mesh);

// Every parameter of the model in global order, placed for one mesh position. Addresses stay valid (deque).
std::deque<Param> place_parameters(const ModelConfig& config, const MeshLayout& mesh, int position);

}  // namespace fivefold
