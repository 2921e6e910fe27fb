// From a configuration to what the layers below want to know.
#pragma once
#include "checkpoint/save.h"
#include "launcher/config.h"
#include "launcher/engine.h"

namespace fivefold {

EngineOptions engine_options(const Config& config, int world);
SaveOptions save_options(const Config& config);

}  // namespace fivefold
