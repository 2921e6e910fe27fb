// Loading under any layout: a rank reads the pieces that share elements with its boxes and nothing else.
#pragma once
#include <optional>
#include <span>

#include "checkpoint/plan.h"

namespace fivefold {

struct LoadOptions {
  // Only tensors whose names begin with one of these take part, such as "model/"; empty: all.
  std::vector<std::string> prefixes;
  // Exact names that the checkpoint or the model may lack. What the checkpoint lacks keeps its value.
  std::vector<std::string> allow_missing;
  // Convert between f64, f32 and bf16 where dtypes differ; otherwise a difference is an error.
  bool convert = false;
  // Called on every rank before any tensor is read; throws to refuse the checkpoint.
  std::function<void(const RunState&)> accept;
};

struct Loaded {
  Path dir;
  std::uint64_t hash = 0;  // of the manifest, equal on all ranks
  std::int64_t generation = 0;
  RunState state;
  std::vector<std::string> missing;  // wanted by some rank, allowed, and not in the checkpoint
};

// Fills the data of every wanted tensor from the checkpoint `dir`. Collective over `world`: rank 0's `dir`
// counts; rank 0 validates manifest and file sizes, all ranks get its manifest and check that they see the
// same one. Names must match in both directions over all ranks together. On failure every rank throws the
// same error (CorruptCheckpoint for damage, UserError for a checkpoint of another model) and the tensors'
// contents are undefined. Memory: three blocks (kBlockBytes) and the manifest beside the tensors.
Loaded load(FileSystem& fs, const Path& dir, std::span<const LocalTensor> wanted, Communicator& world,
            const LoadOptions& options = {});
// The same for a process without ranks.
Loaded load(FileSystem& fs, const Path& dir, std::span<const LocalTensor> wanted,
            const LoadOptions& options = {});

// Loads the newest checkpoint in `root` that proves whole. One that is broken, or turns out to be while it is
// read, is passed over with a warning (on rank 0) and the next older one is tried. Nothing if `root` has no
// step_N at all; an error if none is whole. Collective.
std::optional<Loaded> load_newest(FileSystem& fs, const Path& root, std::span<const LocalTensor> wanted,
                                  Communicator& world, const LoadOptions& options, const Warn& warn);

}  // namespace fivefold
