#include "data/data_set.h"

#include <glob.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "data/content_hash.h"

namespace fivefold {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::optional<double> number_of(std::string_view text) {
  double value = 0.0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

SourceSpec parse_source(std::string_view text) {
  const auto star = text.rfind('*');
  const auto weight = star == text.npos ? std::nullopt : number_of(trimmed(text.substr(star + 1)));
  if (!weight) return {std::string(text)};
  if (!std::isfinite(*weight) || *weight <= 0.0)
    throw UserError(str("the weight of a data file must be positive, but '", text, "' has ", *weight));
  return {std::string(trimmed(text.substr(0, star))), *weight};
}

void check_specs(const std::vector<SourceSpec>& specs) {
  if (specs.empty())
    throw UserError("a data set needs at least one token file, 'PATH' or 'PATH*WEIGHT, PATH*WEIGHT'");
  for (const auto& spec : specs)
    if ((spec.weight > 0.0) != (specs.front().weight > 0.0))
      throw UserError(str("either every data file has a weight or none: '", specs.front().path, "' and '",
                          spec.path, "' differ"));
}

std::vector<std::string> expand(const std::string& pattern) {
  if (pattern.find_first_of("*?[") == std::string::npos) return {pattern};
  glob_t found{};
  const int status = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + (status == 0 ? found.gl_pathc : 0));
  ::globfree(&found);
  if (paths.empty()) throw UserError(str("no data file matches '", pattern, "'"));
  return paths;
}

std::shared_ptr<const TokenFile> open_all(const std::vector<std::string>& paths) {
  std::vector<std::shared_ptr<const TokenFile>> files;
  for (const auto& path : paths) files.push_back(open_token_file(path));
  return join_token_files(std::move(files));
}

}  // namespace

std::vector<SourceSpec> parse_sources(const std::string& list) {
  std::vector<SourceSpec> specs;
  for (std::string_view left = list; !left.empty();) {
    const auto comma = left.find(',');
    const auto item = trimmed(left.substr(0, comma));
    if (!item.empty()) specs.push_back(parse_source(item));
    left = comma == left.npos ? std::string_view() : left.substr(comma + 1);
  }
  return specs;
}

std::vector<Source> open_data_set(const std::vector<SourceSpec>& specs) {
  check_specs(specs);
  std::vector<Source> sources;
  std::vector<std::string> plain;
  for (const auto& spec : specs) {
    const auto paths = expand(spec.path);
    if (spec.weight > 0.0) {
      sources.push_back({open_all(paths), spec.weight});
    } else {
      plain.insert(plain.end(), paths.begin(), paths.end());
    }
  }
  if (!plain.empty()) sources.push_back({open_all(plain)});
  for (const auto& source : sources)
    require_same_tokenizer(sources.front().file->info(), source.file->info());
  return sources;
}

std::string hash_of(const std::vector<Source>& sources) {
  FF_CHECK(!sources.empty(), "no source");
  if (sources.size() == 1) return sources.front().file->hash();
  std::string all;
  double total = 0.0;
  for (const auto& source : sources) total += source.weight;
  for (const auto& source : sources) all += str(source.file->hash(), ' ', source.weight / total, '\n');
  return hex16(hash_text(all));
}

}  // namespace fivefold
