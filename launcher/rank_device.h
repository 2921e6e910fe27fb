// Which device a rank computes on.
#pragma once
#include "launcher/config.h"
#include "launcher/world.h"

namespace fivefold {

// train.device = auto takes a CUDA device where this process sees one, but the CPU for f64, which is there to
// compare with. The ranks of a host share its devices in turn, by local rank. Throws UserError where cuda is
// asked for and none is there.
Device rank_device(const TrainConfig& train, const RankContext& context);

// Devices that all ranks together compute on: GPUs that ranks share count once, and each rank on a CPU as
// one. `mine` is this rank's. Collective over the world.
int devices_of(const RankContext& context, Device mine);

}  // namespace fivefold
