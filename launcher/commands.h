// The table of subcommands.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace fivefold {

struct Command {
  std::string name, help;
  std::function<int(std::span<const std::string>)> run;  // arguments behind the name -> exit code
};

const std::vector<Command>& commands();

}  // namespace fivefold
