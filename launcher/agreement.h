// Ranks that differ in something that must be alike are refused before any group exists.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "parallel/comm/communicator.h"

namespace fivefold {

using Facts = std::vector<std::pair<std::string, std::string>>;  // what, value

// Program version, configuration and the environment variables that change results or hang jobs.
Facts rank_facts(const std::string& config_text);

// Collective. Throws UserError naming the first fact that differs, both ranks and both values.
void check_agreement(Communicator& world, const Facts& facts);

}  // namespace fivefold
