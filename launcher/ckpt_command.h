// fivefold ckpt list | show | verify | diff | reshard | prune.
#pragma once
#include <span>
#include <string>

namespace fivefold {

// `args` are those behind `ckpt`. Prints to standard output and returns the exit code: 0, or 1 where verify
// found damage or diff a difference. Throws UserError for wrong usage (an unknown option names the nearest
// one) and wrong input.
int ckpt_command(std::span<const std::string> args);

}  // namespace fivefold
