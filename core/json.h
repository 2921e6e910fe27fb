// JSON values. Keys keep their order of insertion, so files read as they were written. Slow to compile:
// include it in .cpp files.
#pragma once
#include <nlohmann/json.hpp>

namespace fivefold {
using Json = nlohmann::ordered_json;
}
