// The engine's state as named tensors for checkpoints: model/..., master/... where the compute dtype is less,
// adam_m/..., adam_v/...; the same whatever the storage options are.
#pragma once
#include <vector>

#include "checkpoint/plan.h"
#include "launcher/engine.h"

namespace fivefold {

std::vector<LocalTensor> state_tensors(Engine& engine);
// model/... alone, as weights to start from: in the master's dtype, so that nothing is rounded twice.
std::vector<LocalTensor> master_tensors(Engine& engine);
// Compute copies made from the masters, after only the masters were written.
void masters_changed(Engine& engine);

}  // namespace fivefold
