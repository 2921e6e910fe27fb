// fivefold plan.
#pragma once
#include <span>
#include <string>

namespace fivefold {

// 0; throws UserError for wrong usage and for configurations that no run would take.
int plan_command(std::span<const std::string> args);

}  // namespace fivefold
