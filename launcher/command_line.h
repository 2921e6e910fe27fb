// Command lines of the subcommands that take a configuration: --config FILE, --section.key=value, --ranks N
// and their own options, in any order.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "launcher/arguments.h"
#include "launcher/options.h"

namespace fivefold {

struct CommandLine {
  std::vector<Setting> settings;  // the file's, then the command line's: later ones win
  Arguments own;                  // --config, --ranks and what the subcommand adds
  int ranks() const { return static_cast<int>(own.integer("--ranks", 1, 0)); }
};

// "--a.b=v" and "--a.b v" are settings; everything else belongs to `own`. Throws UserError naming the nearest
// known key or option for an unknown one, and for words without dashes (but the section in "--help SECTION").
CommandLine parse_command_line(std::span<const std::string> args, std::vector<ArgumentSpec> own);

// The help of such a subcommand: usage, its options, and every section's keys with their defaults; with
// `section` that section's keys only.
std::string command_help(const std::string& usage, std::vector<ArgumentSpec> own,
                         const std::string& section = {});
// The same for what follows --help on `line`.
std::string command_help(const std::string& usage, std::vector<ArgumentSpec> own, const CommandLine& line);

}  // namespace fivefold
