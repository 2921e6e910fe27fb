// fivefold parity: this layout against a stored trajectory.
#pragma once
#include <span>
#include <string>

namespace fivefold {

// 0 when every quantity is within its tolerance, 1 when one is not; throws UserError for wrong usage.
int parity_command(std::span<const std::string> args);

}  // namespace fivefold
