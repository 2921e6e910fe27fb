// `fivefold bench comm`.
#pragma once
#include <span>
#include <string>

namespace fivefold {

// `args`: behind "bench comm".
int bench_comm_command(std::span<const std::string> args);

}  // namespace fivefold
