// fivefold: one program, a subcommand each for what users do. The only place where errors become exit codes.
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/nearest.h"
#include "core/version.h"
#include "launcher/commands.h"
#include "parallel/comm/launch_environment.h"

namespace {

using namespace fivefold;

std::string usage() {
  std::string text =
      "fivefold trains transformer language models on clusters.\n\nusage: fivefold COMMAND ...\n\n";
  for (const auto& command : commands())
    text += "  " + command.name + std::string(10 - command.name.size(), ' ') + command.help + "\n";
  return text +
         "\n'fivefold COMMAND --help' tells more. Exit codes: 0 done, 1 failure, 2 wrong usage or input, 75 "
         "stopped after "
         "saving (resume me), 78 do not requeue.\n";
}

int dispatch(const std::vector<std::string>& args) {
  if (args.empty() || args[0] == "--help" || args[0] == "help") {
    std::fputs(usage().c_str(), stdout);
    return args.empty() ? 2 : 0;
  }
  if (args[0] == "--version") {
    std::printf("fivefold %s\n", kVersion);
    return 0;
  }
  std::vector<std::string> names;
  for (const auto& command : commands()) {
    if (command.name == args[0]) return command.run(std::span(args).subspan(1));
    names.push_back(command.name);
  }
  throw UserError(
      str("unknown command '", args[0], "'; the nearest is '", nearest_name(args[0], names), "'"));
}

// Under a launcher every rank finds the same mistake: the first one speaks.
bool speaks() { return read_launch_environment().world_rank.value_or(0) == 0; }

}  // namespace

int main(int argc, char** argv) {
  try {
    return dispatch({argv + 1, argv + argc});
  } catch (const fivefold::UserError& e) {
    if (speaks()) std::fprintf(stderr, "fivefold: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "fivefold: %s\n", e.what());
    return 1;
  }
}
