// Completeness lies in each checkpoint itself: there is no pointer that could be lost or disagree.
#include "checkpoint/steps.h"

#include <algorithm>
#include <random>

#include "checkpoint/hash.h"

namespace fivefold {

namespace {

constexpr std::string_view kStepPrefix = "step_";
constexpr std::size_t kStepDigits = 8;

// The step that a leftover belongs to: its name up to the first '.', if that is a step's.
std::optional<std::string> leftover_of(const std::string& name, const std::string& kind) {
  const auto dot = name.find('.');
  if (dot == std::string::npos || name.compare(dot, kind.size() + 2, "." + kind + "-") != 0)
    return std::nullopt;
  const std::string step = name.substr(0, dot);
  return step_of_dir_name(step) ? std::optional(step) : std::nullopt;
}

// Renames the directory back if its checkpoint is whole and nothing has taken its place.
bool restore(FileSystem& fs, const Path& old, const Path& dir) {
  if (fs.kind(dir) != PathKind::none || !failure_of([&] { read_manifest(fs, old); }).empty()) return false;
  fs.rename(old, dir);
  return true;
}

std::string reasons(const std::vector<StepInfo>& broken) {
  std::string text;
  for (const auto& info : broken)
    text += str(text.empty() ? "" : "; ", info.dir.filename().string(), ": ", info.problem);
  return text;
}

}  // namespace

std::string step_dir_name(std::int64_t step) {
  FF_CHECK(step >= 0, "step ", step);
  const std::string digits = std::to_string(step);
  return str(kStepPrefix, std::string(kStepDigits - std::min(kStepDigits, digits.size()), '0'), digits);
}

std::optional<std::int64_t> step_of_dir_name(const std::string& name) {
  if (!name.starts_with(kStepPrefix) || name.size() > kStepPrefix.size() + 18) return std::nullopt;
  const std::string digits = name.substr(kStepPrefix.size());
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const std::int64_t step = std::stoll(digits);
  return step_dir_name(step) == name ? std::optional(step) : std::nullopt;
}

std::string beside_name(const std::string& name, const std::string& kind) {
  std::random_device random;
  return str(name, ".", kind, "-", hash_hex(std::uint64_t{random()} << 32 | random()));
}

StepInfo inspect_step(FileSystem& fs, const Path& dir) {
  StepInfo info;
  info.step = step_of_dir_name(dir.filename().string()).value_or(-1);
  info.dir = dir;
  try {
    const std::string text = read_manifest_text(fs, dir);
    const Manifest manifest = manifest_from(text, (dir / kManifestName).string());
    check_files(fs, dir, manifest);
    if (manifest.state.step != info.step)
      throw CorruptCheckpoint(
          str(dir.string(), " holds step ", manifest.state.step, ", not the step of its name"));
    info.generation = manifest.generation;
    info.stored_bytes = manifest.stored_bytes();
    info.raw_bytes = manifest.raw_bytes();
    info.hash = manifest_hash(text);
  } catch (const std::exception& e) {
    info.problem = e.what();
  }
  return info;
}

std::vector<StepInfo> list_steps(FileSystem& fs, const Path& root) {
  std::vector<StepInfo> steps;
  if (fs.kind(root) != PathKind::directory) return steps;
  for (const auto& entry : fs.list(root))
    if (entry.directory && step_of_dir_name(entry.name)) steps.push_back(inspect_step(fs, root / entry.name));
  std::sort(steps.begin(), steps.end(), [](const StepInfo& a, const StepInfo& b) { return a.step < b.step; });
  return steps;
}

std::vector<StepInfo> newest_first(const std::vector<StepInfo>& steps) {
  std::vector<StepInfo> complete;
  std::copy_if(steps.begin(), steps.end(), std::back_inserter(complete),
               [](const StepInfo& info) { return info.complete(); });
  std::sort(complete.begin(), complete.end(), [](const StepInfo& a, const StepInfo& b) {
    return std::pair(a.generation, a.step) > std::pair(b.generation, b.step);
  });
  return complete;
}

std::optional<StepInfo> newest_complete(FileSystem& fs, const Path& root, const Warn& warn) {
  const auto steps = list_steps(fs, root);
  std::vector<StepInfo> broken;
  std::copy_if(steps.begin(), steps.end(), std::back_inserter(broken),
               [](const StepInfo& info) { return !info.complete(); });
  const auto complete = newest_first(steps);
  if (complete.empty() && !broken.empty())
    throw UserError(str("no checkpoint in ", root.string(), " is complete (", reasons(broken),
                        "); repair or move them away to start from the beginning"));
  for (const auto& info : broken) warn(str("passed over ", info.dir.string(), ": ", info.problem));
  return complete.empty() ? std::nullopt : std::optional(complete.front());
}

Path checkpoints_root(FileSystem& fs, const Path& path) {
  return fs.kind(path / "checkpoints") == PathKind::directory ? path / "checkpoints" : path;
}

Path resolve_checkpoint(FileSystem& fs, const Path& path, const Warn& warn) {
  if (fs.kind(path) != PathKind::directory)
    throw UserError(str("there is no checkpoint folder ", path.string()));
  if (fs.kind(path / kManifestName) == PathKind::file || step_of_dir_name(path.filename().string()))
    return path;
  const auto newest = newest_complete(fs, checkpoints_root(fs, path), warn);
  if (!newest)
    throw UserError(
        str(path.string(), " holds no checkpoint: neither ", kManifestName, " nor a folder step_N"));
  return newest->dir;
}

void remove_step(FileSystem& fs, const Path& dir) {
  const Path doomed = dir.parent_path() / beside_name(dir.filename().string(), "tmp");
  fs.rename(dir, doomed);
  fs.sync_dir(dir.parent_path());
  remove_tree(fs, doomed);
}

std::vector<Path> prune_steps(FileSystem& fs, const Path& root, std::int64_t keep,
                              const std::vector<Path>& spared) {
  if (keep < 1) throw UserError(str("at least 1 checkpoint is kept, not ", keep));
  std::vector<Path> removed;
  const auto complete = newest_first(list_steps(fs, root));
  for (std::size_t i = static_cast<std::size_t>(keep); i < complete.size(); ++i) {
    const bool spare = std::any_of(spared.begin(), spared.end(), [&](const Path& path) {
      return path.lexically_normal() == complete[i].dir.lexically_normal();
    });
    if (spare) continue;
    remove_step(fs, complete[i].dir);
    removed.push_back(complete[i].dir);
  }
  return removed;
}

std::vector<Path> clear_leftovers(FileSystem& fs, const Path& root) {
  std::vector<Path> removed;
  if (fs.kind(root) != PathKind::directory) return removed;
  bool renamed = false;
  for (const auto& entry : fs.list(root)) {
    const auto old = leftover_of(entry.name, "old");
    if (!entry.directory || (!old && !leftover_of(entry.name, "tmp"))) continue;
    if (old && restore(fs, root / entry.name, root / *old)) {
      renamed = true;
      continue;
    }
    remove_tree(fs, root / entry.name);
    removed.push_back(root / entry.name);
  }
  if (renamed) fs.sync_dir(root);
  return removed;
}

}  // namespace fivefold
