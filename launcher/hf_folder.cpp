#include "launcher/hf_folder.h"

#include <fstream>

#include "core/error.h"
#include "core/json.h"
#include "model/hf_config.h"

namespace fivefold {

ModelConfig read_hf_config(const std::string& dir) {
  const std::string path = dir + "/config.json";
  std::ifstream in(path);
  if (!in)
    throw UserError(
        str("cannot read '", path, "'; a Hugging Face folder holds config.json beside its weights"));
  const auto json = Json::parse(in, nullptr, false);
  if (json.is_discarded()) throw UserError(str("'", path, "' is no valid JSON"));
  try {
    return config_from_hf(json);
  } catch (const UserError& error) {
    throw UserError(str(dir, ": ", error.what()));
  }
}

}  // namespace fivefold
