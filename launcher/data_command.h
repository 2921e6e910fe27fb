// fivefold data build | info | trace.
#pragma once
#include <span>
#include <string>

namespace fivefold {

// `args` are those behind `data`. Prints to standard output and returns the exit code, 0; throws UserError
// for wrong usage (an unknown option names the nearest one) and wrong input.
int data_command(std::span<const std::string> args);

}  // namespace fivefold
