// fivefold train.
#pragma once
#include <span>
#include <string>

namespace fivefold {

// `args` are those behind `train`. Returns the exit code (0, or 75 after a stop request); throws UserError
// for wrong usage.
int train_command(std::span<const std::string> args);

}  // namespace fivefold
