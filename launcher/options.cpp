// Settings become a Config through the option table; Boost.Program_options reads the file format.
#include "launcher/options.h"

#include <algorithm>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <fstream>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/nearest.h"
#include "launcher/hf_folder.h"
#include "launcher/option_table.h"

namespace fivefold {
namespace {

namespace po = boost::program_options;

std::string bare_key(const std::string& name) { return name.substr(name.rfind('.') + 1); }

// The full name of the nearest key; a name without a section is compared with bare keys.
std::string nearest_option(const std::string& name) {
  const auto known = option_names();
  if (name.find('.') != std::string::npos) return nearest_name(name, known);
  std::vector<std::string> bare;
  for (const auto& full : known) bare.push_back(bare_key(full));
  const auto nearest = nearest_name(name, bare);
  return known[static_cast<std::size_t>(std::find(bare.begin(), bare.end(), nearest) - bare.begin())];
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const auto& section : option_table()) names.push_back(section.name);
  return names;
}

void check_section_lines(const std::string& text, const std::string& origin) {
  const auto known = section_names();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto open = line.find_first_not_of(" \t");
    const auto close = line.find(']');
    if (open == std::string::npos || line[open] != '[' || close == std::string::npos) continue;
    const auto name = line.substr(open + 1, close - open - 1);
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UserError(
          str(origin, ": unknown section '", name, "'; the nearest is '", nearest_name(name, known), "'"));
  }
}

po::options_description known_options() {
  po::options_description known;
  for (const auto& name : option_names()) known.add_options()(name.c_str(), po::value<std::string>());
  return known;
}

std::string wrong_value(const Option& option, const Setting& setting) {
  if (option.allowed.empty())
    return str(setting.origin, ": ", setting.name, " = '", setting.value, "' must be ", option.expects);
  std::string allowed;
  for (const auto& value : option.allowed) allowed += (allowed.empty() ? "" : ", ") + value;
  return str(setting.origin, ": ", setting.name, " = '", setting.value, "' must be one of ", allowed,
             "; the nearest is '", nearest_name(setting.value, option.allowed), "'");
}

// What a configuration file could not hold, a command line may not bring either: the resolved file must parse
// back.
void check_writable(const Setting& setting) {
  if (setting.value.find_first_of("#\n\r") != std::string::npos)
    throw UserError(str(setting.origin, ": ", setting.name, " = '", setting.value,
                        "' holds a '#' or a line break, which no configuration value can"));
}

const Setting* last_of(const std::vector<Setting>& settings, const std::string& name) {
  const auto found =
      std::find_if(settings.rbegin(), settings.rend(), [&](const Setting& s) { return s.name == name; });
  return found == settings.rend() || found->value.empty() ? nullptr : &*found;
}

// The shape to start from and what to call it.
std::pair<ModelConfig, std::string> starting_shape(const std::vector<Setting>& settings) {
  const auto* preset = last_of(settings, "model.preset");
  const auto* folder = last_of(settings, "model.from_hf");
  const auto* family = last_of(settings, "model.family");
  if (preset != nullptr && folder != nullptr)
    throw UserError(str("model.preset = ", preset->value, " and model.from_hf = ", folder->value,
                        " both bring a whole shape; give one of them"));
  if (preset != nullptr) return {model_preset(preset->value), "preset " + preset->value};
  if (folder != nullptr) return {read_hf_config(folder->value), "from_hf " + folder->value};
  if (Config scratch; family != nullptr && find_option(family->name)->set(scratch, family->value))
    return {family_defaults(family->value), "family " + family->value};
  return {};
}

// Records `origin` for every [model] key whose value differs between the two.
void note_origins(ResolvedConfig& resolved, const ModelConfig& before, const std::string& origin) {
  Config old = resolved.config;
  old.model = before;
  for (const auto& change : changes(old, resolved.config)) resolved.origins[change.name] = origin;
}

void apply(ResolvedConfig& resolved, const Setting& setting) {
  const Option* option = find_option(setting.name);
  if (option == nullptr) refuse_unknown_key(setting.name, setting.origin);
  check_writable(setting);
  if (!option->set(resolved.config, setting.value)) throw UserError(wrong_value(*option, setting));
  resolved.origins[setting.name] = setting.origin;
}

std::string line_of(const Option& option, const Config& config) {
  const auto value = option.get(config);
  return option.key + (value.empty() ? " =" : " = " + value);
}

}  // namespace

void refuse_unknown_key(const std::string& name, const std::string& origin) {
  throw UserError(str(origin, ": unknown key '", name, "'; the nearest is '", nearest_option(name), "'"));
}

std::vector<Setting> parse_config_text(const std::string& text, const std::string& origin) {
  check_section_lines(text, origin);
  std::istringstream in(text);
  std::vector<Setting> settings;
  std::set<std::string> seen;
  try {
    for (const auto& option : po::parse_config_file(in, known_options(), true).options) {
      if (option.unregistered) refuse_unknown_key(option.string_key, origin);
      if (!seen.insert(option.string_key).second)
        throw UserError(str(origin, ": ", option.string_key, " is given twice; keep one of the lines"));
      settings.push_back({option.string_key, option.value.empty() ? "" : option.value.front(), origin});
    }
  } catch (const po::error& error) {
    throw UserError(str(origin, ": ", error.what(), "; lines are '[section]', 'key = value' or '# comment'"));
  }
  return settings;
}

std::vector<Setting> read_config_file(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || in.bad()) throw UserError(str("cannot read the configuration file '", path, "'"));
  return parse_config_text(text.str(), path);
}

ResolvedConfig resolve(const std::vector<Setting>& settings) {
  ResolvedConfig resolved;
  for (const auto& name : option_names()) resolved.origins[name] = "default";
  const auto [shape, source] = starting_shape(settings);
  if (!source.empty()) {
    const ModelConfig before = resolved.config.model;
    resolved.config.model = shape;
    note_origins(resolved, before, source);
  }
  for (const auto& setting : settings) apply(resolved, setting);
  const ModelConfig given = resolved.config.model;
  resolved.config.model = complete(given);
  note_origins(resolved, given, "derived");
  return resolved;
}

std::string to_text(const ResolvedConfig& resolved) {
  constexpr std::size_t kCommentColumn = 40;
  std::string out = "# Fivefold: the configuration of a run, each value with where it came from.\n";
  for (const auto& section : option_table()) {
    out += str("\n[", section.name, "]\n");
    for (const auto& option : section.options) {
      if (is_shape_source(option.name())) continue;
      auto line = line_of(option, resolved.config);
      line.resize(std::max(kCommentColumn, line.size() + 1), ' ');
      out += str(line, "# ", resolved.origins.at(option.name()), "\n");
    }
  }
  return out;
}

std::string to_text(const Config& config) {
  std::string out;
  for (const auto& section : option_table()) {
    out += str("[", section.name, "]\n");
    for (const auto& option : section.options)
      if (!is_shape_source(option.name())) out += line_of(option, config) + "\n";
  }
  return out;
}

std::vector<Change> changes(const Config& before, const Config& after) {
  std::vector<Change> found;
  for (const auto& name : option_names()) {
    const Option& option = *find_option(name);
    const auto old_value = option.get(before), new_value = option.get(after);
    if (old_value != new_value) found.push_back({name, old_value, new_value});
  }
  return found;
}

}  // namespace fivefold
