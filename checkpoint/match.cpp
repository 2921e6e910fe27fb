// A rank says '1' for each tensor of the manifest that it wants, '0' for the others, then the names it
// misses, a line each.
#include "checkpoint/match.h"

#include <algorithm>
#include <set>

#include "checkpoint/convert.h"
#include "core/nearest.h"

namespace fivefold {

namespace {

constexpr std::size_t kNamesShown = 12;

bool takes_part(const std::string& name, const LoadOptions& options) {
  return options.prefixes.empty() ||
         std::any_of(options.prefixes.begin(), options.prefixes.end(),
                     [&](const std::string& prefix) { return name.starts_with(prefix); });
}

bool allowed(const std::string& name, const LoadOptions& options) {
  return std::find(options.allow_missing.begin(), options.allow_missing.end(), name) !=
         options.allow_missing.end();
}

void check_same_form(const StoredTensor& stored, const LocalTensor& wanted, const LoadOptions& options) {
  if (stored.shape != wanted.global)
    throw UserError(str("tensor ", stored.name, " has shape ", stored.shape, " in the checkpoint and ",
                        wanted.global, " in this model: they are different models"));
  const bool empty = wanted.box.count() == 0;
  if (empty || wanted.dtype() == stored.dtype) return;
  if (!options.convert || !is_floating(stored.dtype) || !is_floating(wanted.dtype()))
    throw UserError(str("tensor ", stored.name, " is ", stored.dtype, " in the checkpoint and ",
                        wanted.dtype(), " here, and conversion was not asked for"));
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i) text += (i ? ", " : "") + names[i];
  return names.size() <= kNamesShown ? text : str(text, " and ", names.size() - kNamesShown, " more");
}

// Names of tensors that take part and that no rank wants.
std::vector<std::string> unexpected_names(const Manifest& manifest, std::span<const std::string> texts,
                                          const LoadOptions& options) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const auto& name = manifest.tensors[i].name;
    const bool wanted =
        std::any_of(texts.begin(), texts.end(), [i](const std::string& text) { return text.at(i) == '1'; });
    if (!wanted && takes_part(name, options)) names.push_back(name);
  }
  return names;
}

std::vector<std::string> missing_names(const Manifest& manifest, std::span<const std::string> texts) {
  std::set<std::string> names;
  for (const auto& text : texts) {
    std::istringstream lines(text.substr(manifest.tensors.size()));
    for (std::string name; std::getline(lines, name);) names.insert(name);
  }
  return {names.begin(), names.end()};
}

void check_allowed_names(const Manifest& manifest, const std::vector<std::string>& missing,
                         const LoadOptions& options) {
  std::vector<std::string> known = missing;
  for (const auto& tensor : manifest.tensors) known.push_back(tensor.name);
  for (const auto& name : options.allow_missing)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UserError(str("allow_missing names '", name,
                          "', which neither checkpoint nor model has; the nearest is '",
                          nearest_name(name, known), "'"));
}

}  // namespace

std::string match_text(const Manifest& manifest, std::span<const LocalTensor> wanted,
                       const LoadOptions& options) {
  std::string used(manifest.tensors.size(), '0'), missing;
  for (const auto& tensor : wanted) {
    FF_CHECK(takes_part(tensor.name, options), tensor.name, " is wanted but its prefix is left out");
    FF_CHECK(tensor.name.find('\n') == std::string::npos, "a name of two lines");
    if (tensor.global.count() == 0) continue;  // no rank has an element to store
    const StoredTensor* stored = manifest.find(tensor.name);
    if (!stored) {
      missing += tensor.name + "\n";
      continue;
    }
    check_same_form(*stored, tensor, options);
    used[static_cast<std::size_t>(stored - manifest.tensors.data())] = '1';
  }
  return used + missing;
}

std::vector<std::string> check_match(const Manifest& manifest, std::span<const std::string> texts,
                                     const LoadOptions& options) {
  const auto missing = missing_names(manifest, texts);
  check_allowed_names(manifest, missing, options);
  auto absent = missing, unexpected = unexpected_names(manifest, texts, options);
  std::erase_if(absent, [&](const std::string& name) { return allowed(name, options); });
  std::erase_if(unexpected, [&](const std::string& name) { return allowed(name, options); });
  if (absent.empty() && unexpected.empty()) return missing;
  std::string problem = "the checkpoint is of another model";
  if (!absent.empty()) problem += str("; it lacks ", listed(absent));
  if (!unexpected.empty()) problem += str("; the model lacks ", listed(unexpected));
  throw UserError(problem + " (checkpoint.allow_missing lists names that may differ)");
}

}  // namespace fivefold
