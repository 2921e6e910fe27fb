// A folder of Hugging Face files as the launcher sees it: the shape in its config.json.
#pragma once
#include <string>

#include "model/config.h"

namespace fivefold {

// Reads DIR/config.json. Throws UserError where it is missing, is no JSON, or describes a model that Fivefold
// lacks.
ModelConfig read_hf_config(const std::string& dir);

}  // namespace fivefold
