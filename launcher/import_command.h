// `fivefold import` and `fivefold export`.
#pragma once
#include <span>
#include <string>

namespace fivefold {

int import_command(std::span<const std::string> args);
int export_command(std::span<const std::string> args);

}  // namespace fivefold
