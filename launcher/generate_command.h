// `fivefold generate`: continues a prompt with a model from a checkpoint, on one rank.
#pragma once
#include <span>
#include <string>

namespace fivefold {

int generate_command(std::span<const std::string> args);

}  // namespace fivefold
