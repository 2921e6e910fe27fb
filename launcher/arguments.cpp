#include "launcher/arguments.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "core/nearest.h"

namespace fivefold {
namespace {

const ArgumentSpec& spec_of(const std::string& name, const std::vector<ArgumentSpec>& specs) {
  const auto found =
      std::find_if(specs.begin(), specs.end(), [&](const auto& spec) { return spec.name == name; });
  if (found != specs.end()) return *found;
  std::vector<std::string> known = {"--help"};
  for (const auto& spec : specs) known.push_back(spec.name);
  throw UserError(str("unknown option '", name, "'; the nearest is '", nearest_name(name, known), "'"));
}

template <class T>
std::optional<T> parsed(const std::string& text) {
  T value{};
  const auto end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

}  // namespace

Arguments::Arguments(std::span<const std::string> args, const std::vector<ArgumentSpec>& specs) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    const auto& arg = args[i];
    if (arg.size() < 2 || arg[0] != '-') {
      words_.push_back(arg);
      continue;
    }
    const auto equals = arg.find('=');
    const auto name = arg.substr(0, equals);
    const bool flag = name == "--help" || spec_of(name, specs).value.empty();
    if (flag && equals != arg.npos) throw UserError(str("option '", name, "' takes no value"));
    std::string value = flag || equals == arg.npos ? "" : arg.substr(equals + 1);
    if (!flag && equals == arg.npos) {
      if (++i == args.size()) throw UserError(str("option '", name, "' needs a value"));
      value = args[i];
    }
    if (!values_.emplace(name, value).second) throw UserError(str("option '", name, "' is given twice"));
  }
}

std::string Arguments::text(const std::string& name, const std::string& otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second;
}

std::int64_t Arguments::integer(const std::string& name, std::int64_t least,
                                std::optional<std::int64_t> otherwise) const {
  if (!has(name)) {
    if (!otherwise) throw UserError(str("option '", name, "' must be given"));
    return *otherwise;
  }
  const auto value = parsed<std::int64_t>(text(name));
  if (!value || *value < least)
    throw UserError(
        str("option '", name, "' must be an integer of at least ", least, ", not '", text(name), "'"));
  return *value;
}

double Arguments::number(const std::string& name, double otherwise) const {
  if (!has(name)) return otherwise;
  const auto value = parsed<double>(text(name));
  if (!value) throw UserError(str("option '", name, "' must be a number, not '", text(name), "'"));
  return *value;
}

std::string Arguments::choice(const std::string& name, const std::vector<std::string>& allowed) const {
  const auto value = text(name, allowed.front());
  if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
    throw UserError(str("option '", name, "' cannot be '", value, "'; the nearest is '",
                        nearest_name(value, allowed), "'"));
  return value;
}

std::string help_text(const std::vector<ArgumentSpec>& specs) {
  std::size_t width = 0;
  const auto left = [](const ArgumentSpec& spec) {
    return spec.name + (spec.value.empty() ? "" : " " + spec.value);
  };
  for (const auto& spec : specs) width = std::max(width, left(spec).size());
  std::string text;
  for (const auto& spec : specs) {
    const auto head = left(spec);
    text += str("  ", head, std::string(width - head.size() + 2, ' '), spec.help, '\n');
  }
  return text;
}

}  // namespace fivefold
