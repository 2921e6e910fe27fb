// From a configuration to what the layers below want to know.
#pragma once
#include "checkpoint/save.h"
#include "launcher/config.h"
#include "launcher/engine.h"
#include "launcher/world.h"

namespace fivefold {

// On the CPU: plans and other thoughts.
EngineOptions engine_options(const Config& config, int world);
// On the rank's device.
EngineOptions engine_options(const Config& config, const RankContext& context);
SaveOptions save_options(const Config& config);

}  // namespace fivefold
