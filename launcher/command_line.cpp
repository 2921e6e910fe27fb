// Tells settings from options by the dot in the name; Boost.Program_options lays out the help.
#include "launcher/command_line.h"

#include <algorithm>
#include <boost/program_options/options_description.hpp>

#include "core/error.h"
#include "core/nearest.h"
#include "launcher/option_table.h"
#include "launcher/values.h"

namespace fivefold {

namespace {

namespace po = boost::program_options;

constexpr unsigned kHelpColumns = 118, kHelpMinimumText = 62;

std::vector<ArgumentSpec> with_common(std::vector<ArgumentSpec> own) {
  own.insert(own.begin(),
             {{"--config", "FILE", "configuration file"},
              {"--ranks", "N", "simulate N ranks as threads of this process, instead of mpirun or srun"}});
  own.push_back({"--help", "", "this text; --help SECTION: the keys of one section"});
  return own;
}

bool is_setting(const std::string& arg) {
  const auto name = arg.substr(0, arg.find('='));
  return name.rfind("--", 0) == 0 && name.find('.') != std::string::npos;
}

// The setting that starts at args[i]; moves i to its last word.
Setting take_setting(std::span<const std::string> args, std::size_t& i) {
  const auto& arg = args[i];
  const auto equals = arg.find('=');
  const auto name = arg.substr(2, equals == std::string::npos ? equals : equals - 2);
  if (find_option(name) == nullptr) refuse_unknown_key(name, "command line");
  if (equals != std::string::npos) return {name, arg.substr(equals + 1), "command line"};
  if (i + 1 >= args.size()) throw UserError(str("--", name, " needs a value: --", name, "=VALUE"));
  return {name, args[++i], "command line"};
}

// An option that is neither the subcommand's nor a setting: a key without its section, or a slip of the pen.
void check_option(const std::string& arg, const std::vector<ArgumentSpec>& specs) {
  if (arg.size() < 2 || arg[0] != '-') return;
  const auto dashed = arg.substr(0, arg.find('='));
  std::vector<std::string> known;
  for (const auto& spec : specs) known.push_back(spec.name);
  if (std::find(known.begin(), known.end(), dashed) != known.end()) return;
  const auto bare = dashed.substr(std::min(dashed.find_first_not_of('-'), dashed.size()));
  for (const auto& name : option_names()) {
    if (name.substr(name.find('.') + 1) == bare)
      throw UserError(
          str("unknown option '", dashed, "'; keys are written with their section: '--", name, "'"));
    known.push_back("--" + name);
  }
  const auto longer = std::find_if(known.begin(), known.end(),
                                   [&](const auto& name) { return name.starts_with("--" + bare); });
  const auto nearest = longer != known.end() ? *longer : nearest_name("--" + bare, known);
  throw UserError(str("unknown option '", dashed, "'; the nearest is '", nearest, "'"));
}

// True where the value of the option is the next word.
bool takes_next(const std::string& arg, const std::vector<ArgumentSpec>& specs) {
  return std::any_of(specs.begin(), specs.end(),
                     [&](const ArgumentSpec& spec) { return spec.name == arg && !spec.value.empty(); });
}

bool is_section(const std::string& name) {
  const auto& table = option_table();
  return std::any_of(table.begin(), table.end(),
                     [&](const Section& section) { return section.name == name; });
}

void check_words(const Arguments& own) {
  for (const auto& word : own.words())
    if (!own.has("--help") || !is_section(word))
      throw UserError(
          str("unexpected argument '", word, "': options begin with --, settings are --section.key=value"));
}

std::string described(const Option& option) {
  const auto value = option.get(Config{});
  std::string help = option.help;
  if (!option.allowed.empty() && option.allowed.front() != "true" && option.allowed.size() <= 6)
    help += ": " + list_of(option.allowed);
  return help + (value.empty() ? "" : " [" + value + "]");
}

std::string section_help(const Section& section) {
  po::options_description description(str("[", section.name, "] ", section.help), kHelpColumns,
                                      kHelpMinimumText);
  for (const auto& option : section.options) {
    auto* value =
        po::value<std::string>()->value_name(option.placeholder.empty() ? "NAME" : option.placeholder);
    description.add_options()(option.name().c_str(), value, described(option).c_str());
  }
  return str(description);
}

}  // namespace

CommandLine parse_command_line(std::span<const std::string> args, std::vector<ArgumentSpec> own) {
  const auto specs = with_common(std::move(own));
  std::vector<Setting> given;
  std::vector<std::string> rest;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (is_setting(args[i])) {
      given.push_back(take_setting(args, i));
      continue;
    }
    rest.push_back(args[i] == "-h" ? "--help" : args[i]);
    check_option(rest.back(), specs);
    if (i + 1 < args.size() && takes_next(rest.back(), specs)) rest.push_back(args[++i]);
  }
  CommandLine line{.settings = {}, .own = Arguments(rest, specs)};
  check_words(line.own);
  if (line.own.has("--help")) return line;
  if (line.own.has("--config")) line.settings = read_config_file(line.own.text("--config"));
  line.settings.insert(line.settings.end(), given.begin(), given.end());
  return line;
}

std::string command_help(const std::string& usage, std::vector<ArgumentSpec> own,
                         const std::string& section) {
  std::string out = section.empty() ? usage + "\n\n" + help_text(with_common(std::move(own))) : "";
  for (const auto& each : option_table())
    if (section.empty() || each.name == section) out += (section.empty() ? "\n" : "") + section_help(each);
  return out;
}

std::string command_help(const std::string& usage, std::vector<ArgumentSpec> own, const CommandLine& line) {
  return command_help(usage, std::move(own), line.own.words().empty() ? "" : line.own.words().front());
}

}  // namespace fivefold
