// Order of a save: files, synchronise each; names in the directory, synchronise; manifest, synchronise,
// rename, synchronise; rename the directory, synchronise its parent. Each step is durable before the next one
// refers to it.
#include "checkpoint/save.h"

#include <algorithm>

#include "checkpoint/hash.h"
#include "checkpoint/staging.h"
#include "checkpoint/steps.h"
#include "checkpoint/verify.h"

namespace fivefold {

namespace {

std::string title(std::int64_t step) { return str("saving step ", step); }

void write_tensor(PieceWriter& writer, const LocalTensor& tensor) {
  const auto data = fetched(tensor);
  FF_CHECK_EQ(data.count(), tensor.box.count(), tensor.name, " ", tensor.box);
  writer.write(tensor.name, data.dtype(), tensor.global, tensor.box,
               {data.raw(), static_cast<std::size_t>(data.bytes())});
}

std::vector<const LocalTensor*> by_name(std::span<const LocalTensor> mine) {
  std::vector<const LocalTensor*> sorted;
  for (const auto& tensor : mine)
    if (tensor.box.count() > 0) sorted.push_back(&tensor);
  std::stable_sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->name < b->name; });
  return sorted;
}

void merge_tensor(std::map<std::string, StoredTensor>& merged, StoredTensor&& tensor) {
  auto& whole = merged.try_emplace(tensor.name, StoredTensor{tensor.name, tensor.dtype, tensor.shape, {}})
                    .first->second;
  FF_CHECK(whole.dtype == tensor.dtype && whole.shape == tensor.shape, "ranks disagree on ", tensor.name,
           ": ", whole.dtype, " ", whole.shape, " and ", tensor.dtype, " ", tensor.shape);
  std::move(tensor.pieces.begin(), tensor.pieces.end(), std::back_inserter(whole.pieces));
}

// True if both hold the same state and the same tensors in the same boxes.
bool same_content(const Manifest& a, const Manifest& b) {
  const auto same_pieces = [](const StoredTensor& x, const StoredTensor& y) {
    return x.name == y.name && x.dtype == y.dtype && x.shape == y.shape &&
           std::equal(x.pieces.begin(), x.pieces.end(), y.pieces.begin(), y.pieces.end(),
                      [](const Piece& p, const Piece& q) {
                        return p.box == q.box && p.encoded.hash_raw == q.encoded.hash_raw;
                      });
  };
  return a.state == b.state &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(), same_pieces);
}

// The same checkpoint, whole, in `dir`?
bool is_there(FileSystem& fs, const Path& dir, const Manifest& manifest) {
  bool same = false;
  const auto failure = failure_of([&] { same = same_content(read_manifest(fs, dir), manifest); });
  return failure.empty() && same && verify_checkpoint(fs, dir).empty();
}

// What this program is about to write must be right: anything else is its own fault, not a corrupt
// checkpoint's.
void check_own(const Manifest& manifest, const Path& dir) {
  try {
    check_manifest(manifest, dir.string());
  } catch (const CorruptCheckpoint& e) {
    throw Error(e.what());
  }
}

// Gives `temporary` the name `dir`; a directory of that name goes, and returns if its successor cannot
// arrive.
void take_name(FileSystem& fs, const Path& temporary, const Path& dir) {
  const Path root = dir.parent_path(), aside = root / beside_name(dir.filename().string(), "old");
  const bool replaces = fs.kind(dir) != PathKind::none;
  if (replaces) fs.rename(dir, aside);
  try {
    fs.rename(temporary, dir);
  } catch (...) {
    if (replaces) failure_of([&] { fs.rename(aside, dir); });
    throw;
  }
  fs.sync_dir(root);
  // The new checkpoint stands: what cannot be removed now is cleared at the next start.
  if (replaces) failure_of([&] { remove_tree(fs, aside); });
}

SavedCheckpoint describe(const Path& dir, const Manifest& manifest, bool existed) {
  return {dir,
          manifest_hash(to_text(manifest)),
          manifest.generation,
          manifest.stored_bytes(),
          manifest.raw_bytes(),
          existed};
}

std::string saved_to_text(const SavedCheckpoint& saved) {
  return str(hash_hex(saved.hash), saved.existed ? "1" : "0", saved.generation, " ", saved.stored_bytes, " ",
             saved.raw_bytes);
}

SavedCheckpoint saved_from(const Path& dir, const std::string& text) {
  SavedCheckpoint saved{
      .dir = dir, .hash = hash_from_hex(text.substr(0, 16)).value(), .existed = text.at(16) == '1'};
  std::istringstream(text.substr(17)) >> saved.generation >> saved.stored_bytes >> saved.raw_bytes;
  return saved;
}

}  // namespace

std::string rank_file_name(int rank) {
  const std::string digits = std::to_string(rank);
  return str("rank_", std::string(5 - std::min<std::size_t>(5, digits.size()), '0'), digits, ".bin");
}

std::int64_t next_generation(FileSystem& fs, const Path& root) {
  std::int64_t generation = 1;
  for (const auto& info : list_steps(fs, root)) generation = std::max(generation, info.generation + 1);
  return generation;
}

Manifest merge_parts(std::vector<Manifest> parts) {
  Manifest manifest;
  std::map<std::string, StoredTensor> tensors;
  for (auto& part : parts) {
    std::move(part.files.begin(), part.files.end(), std::back_inserter(manifest.files));
    for (auto& tensor : part.tensors) merge_tensor(tensors, std::move(tensor));
  }
  std::sort(manifest.files.begin(), manifest.files.end(), [](auto& a, auto& b) { return a.name < b.name; });
  for (auto& [name, tensor] : tensors) manifest.tensors.push_back(std::move(tensor));
  return manifest;
}

SavedCheckpoint commit_directory(FileSystem& fs, const Path& temporary, const Path& dir,
                                 const Manifest& manifest) {
  check_own(manifest, dir);
  fs.sync_dir(temporary);
  if (is_there(fs, dir, manifest)) {
    const auto present = read_manifest(fs, dir);
    remove_tree(fs, temporary);
    return describe(dir, present, true);
  }
  write_text_durably(fs, temporary / kManifestName, to_text(manifest));
  take_name(fs, temporary, dir);
  return describe(dir, manifest, false);
}

Path begin_save(FileSystem& fs, const Path& root, std::int64_t step, Communicator& world) {
  return from_rank_0(&world, title(step), [&] {
    make_dirs_durably(fs, root);
    const Path temporary = root / beside_name(step_dir_name(step), "tmp");
    fs.make_dir(temporary);
    return temporary.string();
  });
}

Manifest write_part(FileSystem& fs, const Path& temporary, int rank, std::span<const LocalTensor> mine,
                    const SaveOptions& options) {
  PieceWriter writer(fs, temporary, rank_file_name(rank), options.compression, options.piece_bytes);
  std::vector<StoredTensor> not_owned;
  for (const auto* tensor : by_name(mine)) {
    if (tensor->owned)
      write_tensor(writer, *tensor);
    else
      not_owned.push_back({tensor->name, tensor->dtype(), tensor->global, {}});
  }
  // Rank 0 must hear of these too: a tensor that no rank owns would be lost without a word.
  Manifest part = writer.finish();
  std::move(not_owned.begin(), not_owned.end(), std::back_inserter(part.tensors));
  return part;
}

SavedCheckpoint commit_save(FileSystem& fs, const Path& root, const Path& temporary, const RunState& state,
                            const std::function<Manifest()>& part, Communicator& world) {
  const Path dir = root / step_dir_name(state.step);
  try {
    const auto parts = together(&world, title(state.step), [&] { return part_to_text(part()); });
    const auto outcome = from_rank_0(&world, title(state.step), [&] {
      std::vector<Manifest> parsed;
      for (const auto& text : parts) parsed.push_back(part_from(text));
      Manifest manifest = merge_parts(std::move(parsed));
      manifest.generation = next_generation(fs, root);
      manifest.state = state;
      return saved_to_text(commit_directory(fs, temporary, dir, manifest));
    });
    return saved_from(dir, outcome);
  } catch (...) {
    if (world.rank() == 0) failure_of([&] { remove_tree(fs, temporary); });
    throw;
  }
}

SavedCheckpoint save(FileSystem& fs, const Path& root, const RunState& state,
                     std::span<const LocalTensor> mine, Communicator& world, const SaveOptions& options) {
  const Path temporary = begin_save(fs, root, state.step, world);
  return commit_save(
      fs, root, temporary, state, [&] { return write_part(fs, temporary, world.rank(), mine, options); },
      world);
}

}  // namespace fivefold
