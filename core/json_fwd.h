// The name Json without its definition: for headers that only pass values on. Including core/json.h costs
// seconds a file.
#pragma once
#include <nlohmann/json_fwd.hpp>

namespace fivefold {
using Json = nlohmann::ordered_json;
}
