// `fivefold bench ops|step`: speed of kernels and of whole training steps.
#pragma once
#include <span>
#include <string>

namespace fivefold {

int bench_command(std::span<const std::string> args);

}  // namespace fivefold
