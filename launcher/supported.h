// What this version can do. A key whose feature is not there yet is refused here, in one place, and never
// ignored.
#pragma once
#include "launcher/config.h"

namespace fivefold {

// Throws UserError naming the key, its value and what works, for the first setting that asks for a missing
// feature.
void check_supported(const Config& config);

}  // namespace fivefold
