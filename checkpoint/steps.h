// The checkpoints of a run: naming, finding, choosing, keeping and clearing away.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace fivefold {

// "step_00000100"; more digits where eight are too few.
std::string step_dir_name(std::int64_t step);
// The step of such a name, nothing for any other.
std::optional<std::int64_t> step_of_dir_name(const std::string& name);
// "`name`.`kind`-<16 random digits>": a name beside `name` that no checkpoint has. Kinds: "tmp" while it is
// written or removed, "old" while it is replaced.
std::string beside_name(const std::string& name, const std::string& kind);

struct StepInfo {
  std::int64_t step = 0;
  Path dir;
  std::string problem;  // why it is no complete checkpoint; the figures below are 0 then
  std::int64_t generation = 0, stored_bytes = 0, raw_bytes = 0;
  std::uint64_t hash = 0;  // of the manifest
  bool complete() const { return problem.empty(); }
};

// One directory, judged by its manifest and its files' presence and size; tensor bytes are not read. The name
// must be a step's and agree with the manifest.
StepInfo inspect_step(FileSystem& fs, const Path& dir);
// Every step_N in `root`, ascending by step; none if `root` does not exist.
std::vector<StepInfo> list_steps(FileSystem& fs, const Path& root);
// Complete ones, newest first. Newest is the last one written, not the one of the largest step: after going
// back to step 400 a step 5000 of earlier is old.
std::vector<StepInfo> newest_first(const std::vector<StepInfo>& steps);
// The newest complete one. Broken ones are passed over with a warning each that says why. Nothing if there is
// no step_N at all; throws UserError if there are only broken ones, since starting over must be a person's
// decision.
std::optional<StepInfo> newest_complete(FileSystem& fs, const Path& root, const Warn& warn);
// What `path` means where one checkpoint is wanted: itself, or the newest complete one in it or in
// `path`/checkpoints.
Path resolve_checkpoint(FileSystem& fs, const Path& path, const Warn& warn);
// `path`/checkpoints if it exists, else `path`.
Path checkpoints_root(FileSystem& fs, const Path& path);

// Deletes the complete checkpoints beyond the newest `keep`, never one in `spared` (the one just written, the
// one resumed from). Call after a commit only. Returns what was deleted. Throws UserError for keep < 1.
std::vector<Path> prune_steps(FileSystem& fs, const Path& root, std::int64_t keep,
                              const std::vector<Path>& spared);
// Clears what a killed job left: unfinished directories go; a checkpoint that was being replaced when its
// successor failed to arrive gets its name back. For one process, while no other writes here. Returns what
// was removed.
std::vector<Path> clear_leftovers(FileSystem& fs, const Path& root);
// Deletes a checkpoint so that a crash on the way leaves either all of it or a leftover.
void remove_step(FileSystem& fs, const Path& dir);

}  // namespace fivefold
