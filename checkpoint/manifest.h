// The manifest of a checkpoint: what is stored, where, and the hashes that prove it. A directory step_N is a
// checkpoint exactly when its manifest.json exists and verifies. Format: docs/formats/checkpoint.md, version
// 1.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "checkpoint/codec.h"
#include "checkpoint/failure.h"
#include "checkpoint/file_system.h"
#include "parallel/mesh/partition.h"

namespace fivefold {

constexpr int kManifestVersion = 1;
constexpr const char* kManifestName = "manifest.json";

// One stored box of a tensor: row-major elements, encoded, in `file` from `offset`.
struct Piece {
  Box box;
  std::string file;
  std::int64_t offset = 0;
  PieceCodec codec = PieceCodec::raw;
  Encoded encoded;
  bool operator==(const Piece&) const = default;
};

struct StoredTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<Piece> pieces;  // tile the shape
  bool operator==(const StoredTensor&) const = default;
};

// Where the run stood. `step` counts applied updates, `samples` consumed sequences.
struct RunState {
  std::int64_t step = 0, samples = 0;
  std::uint64_t seed = 0;
  std::string config;     // the resolved configuration as text
  std::string data_hash;  // of the training files
  std::string tokenizer_hash;
  std::map<std::string, std::string> extra;
  bool operator==(const RunState&) const = default;
};

struct StoredFile {
  std::string name;
  std::int64_t bytes = 0;
  bool operator==(const StoredFile&) const = default;
};

struct Manifest {
  std::int64_t generation =
      1;  // larger than that of every checkpoint that was in the folder when this one was written
  RunState state;
  std::vector<StoredFile> files;      // sorted by name; their pieces lie back to back and fill them
  std::vector<StoredTensor> tensors;  // sorted by name
  bool operator==(const Manifest&) const = default;

  // Null if there is none of that name.
  const StoredTensor* find(std::string_view name) const;
  std::int64_t stored_bytes() const;
  std::int64_t raw_bytes() const;
};

// The text of manifest.json. It holds its own hash, so a change of any bit shows.
std::string to_text(const Manifest& manifest);
// The self-hash of such a text. Throws CorruptCheckpoint where the text has no place for it.
std::uint64_t manifest_hash(std::string_view text);
// Verifies and parses. Throws CorruptCheckpoint("`where`: ..."): another version, a wrong hash, an unknown or
// missing key, a tensor that its pieces do not tile exactly, a piece outside its file, a gap or an overlap
// within a file.
Manifest manifest_from(std::string_view text, const std::string& where);

// The invariants above, for a manifest made in memory.
void check_manifest(const Manifest& manifest, const std::string& where);

// Tensors and files of one rank as text, for the way to rank 0.
std::string part_to_text(const Manifest& part);
Manifest part_from(std::string_view text);

// The text of `dir`/manifest.json, not verified. Throws CorruptCheckpoint if there is none.
std::string read_manifest_text(FileSystem& fs, const Path& dir);
// Reads and verifies `dir`/manifest.json; with it every file's presence and size. Reads no tensor.
Manifest read_manifest(FileSystem& fs, const Path& dir);
// Throws CorruptCheckpoint naming the file, expected and found size.
void check_files(FileSystem& fs, const Path& dir, const Manifest& manifest);

}  // namespace fivefold
