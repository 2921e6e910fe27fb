// From texts to a Config: configuration files, precedence, where each value came from, and the resolved file.
// Precedence: default < family < model.preset or model.from_hf < file < command line.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "launcher/config.h"

namespace fivefold {

// One key as somebody wrote it.
struct Setting {
  std::string name;    // "train.micro_batch"
  std::string value;   // trimmed
  std::string origin;  // for people: "run.conf", "command line"
};

// Reads INI text: [section] lines, key = value, # comments. Throws UserError (naming `origin`) for malformed
// lines, for unknown sections and keys with the nearest known ones, and for a key that is given twice.
std::vector<Setting> parse_config_text(const std::string& text, const std::string& origin);
// The same from a file; a missing or unreadable one is a UserError.
std::vector<Setting> read_config_file(const std::string& path);

// Throws UserError with the nearest known name, for a key that no section has.
[[noreturn]] void refuse_unknown_key(const std::string& name, const std::string& origin);

struct ResolvedConfig {
  Config config;  // its model is completed
  std::map<std::string, std::string>
      origins;  // by option name: "default", "preset llama-1b", "run.conf", "command line"
};

// Applies defaults, the shape's source, then `settings` in their order (later ones win). Throws UserError for
// a value that is none, naming what it should have been and where it was given. Rules between values are
// check()'s.
ResolvedConfig resolve(const std::vector<Setting>& settings);

// A valid configuration file: every key but preset and from_hf, in the table's order, each with its origin as
// a comment. Parses back to an equal Config. Written into the run directory and every checkpoint.
std::string to_text(const ResolvedConfig& resolved);
// The same without comments: equal for equal Configs, so ranks can compare a hash of it.
std::string to_text(const Config& config);

// A key whose value differs between two configurations.
struct Change {
  std::string name, before, after;
};
std::vector<Change> changes(const Config& before, const Config& after);

}  // namespace fivefold
