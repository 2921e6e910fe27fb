// Saving: every rank writes what it owns, rank 0 commits. Until the last rename the new checkpoint has no
// name that a reader looks at, so a job killed anywhere leaves the old ones as they were.
#pragma once
#include <span>

#include "checkpoint/piece_io.h"
#include "checkpoint/plan.h"

namespace fivefold {

struct SaveOptions {
  Compression compression = Compression::fast;
  std::int64_t piece_bytes = kPieceBytes;
};

struct SavedCheckpoint {
  Path dir;
  std::uint64_t hash = 0;  // of the manifest
  std::int64_t generation = 0, stored_bytes = 0, raw_bytes = 0;
  bool existed = false;  // the same checkpoint was there already
};

// Saves the step as `root`/step_N. Collective over `world`; every rank offers its parts of all tensors, of
// which exactly one rank owns each distinct box. Returns on every rank after the commit; when it fails
// anywhere, every rank throws the same error, the older checkpoints are untouched and the unfinished
// directory is removed if that is still possible. A complete checkpoint of the same content that lies there
// already is left; any other directory of that name is replaced. Memory: about four blocks (kBlockBytes)
// beside the tensors.
SavedCheckpoint save(FileSystem& fs, const Path& root, const RunState& state,
                     std::span<const LocalTensor> mine, Communicator& world, const SaveOptions& options = {});

// The three parts of save(), for a caller that writes in the background:
// 1. Rank 0 makes the temporary directory; all learn its path. Collective.
Path begin_save(FileSystem& fs, const Path& root, std::int64_t step, Communicator& world);
// 2. Writes `rank_00000.bin` there and synchronises it. No communication.
Manifest write_part(FileSystem& fs, const Path& temporary, int rank, std::span<const LocalTensor> mine,
                    const SaveOptions& options);
// 3. Rank 0 merges the parts, checks that they tile every tensor and commits. `part` runs on every rank and
// returns what write_part returned; what it throws fails the save on all. Collective.
SavedCheckpoint commit_save(FileSystem& fs, const Path& root, const Path& temporary, const RunState& state,
                            const std::function<Manifest()>& part, Communicator& world);

// "rank_00003.bin"
std::string rank_file_name(int rank);
// One more than the largest generation of the complete checkpoints in `root`.
std::int64_t next_generation(FileSystem& fs, const Path& root);
// Merges the parts of all ranks into one manifest with sorted names. Throws Error if ranks disagree on a
// tensor.
Manifest merge_parts(std::vector<Manifest> parts);
// Writes the manifest into `temporary` and renames it to `root`/step_N: from here on it is a checkpoint. For
// one process.
SavedCheckpoint commit_directory(FileSystem& fs, const Path& temporary, const Path& dir,
                                 const Manifest& manifest);

}  // namespace fivefold
