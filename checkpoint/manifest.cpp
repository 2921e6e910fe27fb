// What must hold in every manifest, whoever made it.
#include "checkpoint/manifest.h"

#include <algorithm>

#include "checkpoint/tiling.h"

namespace fivefold {

namespace {

template <class T>
bool names_ascend(const std::vector<T>& items) {
  return std::adjacent_find(items.begin(), items.end(),
                            [](const T& a, const T& b) { return a.name >= b.name; }) == items.end();
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name != kManifestName &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

void check_tensor(const StoredTensor& tensor, const std::string& where) {
  std::vector<Box> boxes;
  for (const auto& piece : tensor.pieces) boxes.push_back(piece.box);
  if (const auto problem = tiling_problem(tensor.shape, boxes))
    throw CorruptCheckpoint(str(where, ": tensor ", tensor.name, ": ", *problem));
  for (const auto& piece : tensor.pieces)
    if (piece.encoded.raw_bytes != piece.box.count() * size_of(tensor.dtype))
      throw CorruptCheckpoint(str(where, ": tensor ", tensor.name, ", box ", piece.box, ": ",
                                  piece.encoded.raw_bytes, " raw bytes where ",
                                  piece.box.count() * size_of(tensor.dtype), " are expected"));
}

struct Extent {
  const StoredTensor* tensor;
  const Piece* piece;
};

// Pieces of a file lie back to back from its start to its end.
void check_extents(const StoredFile& file, std::vector<Extent> extents, const std::string& where) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.piece->offset < b.piece->offset; });
  std::int64_t end = 0;
  for (const auto& [tensor, piece] : extents) {
    if (piece->offset != end || piece->encoded.stored_bytes <= 0)
      throw CorruptCheckpoint(str(where, ": file ", file.name, ": tensor ", tensor->name, " begins at byte ",
                                  piece->offset, " where ", end, " is expected"));
    end += piece->encoded.stored_bytes;
    if (end > file.bytes)
      throw CorruptCheckpoint(str(where, ": file ", file.name, ": tensor ", tensor->name, " ends at byte ",
                                  end, " of ", file.bytes));
  }
  if (end != file.bytes)
    throw CorruptCheckpoint(
        str(where, ": file ", file.name, ": pieces fill ", end, " of its ", file.bytes, " bytes"));
}

void check_layout_of_files(const Manifest& manifest, const std::string& where) {
  std::map<std::string, std::vector<Extent>> by_file;
  for (const auto& file : manifest.files) {
    if (!is_plain_name(file.name))
      throw CorruptCheckpoint(str(where, ": '", file.name, "' is not the name of a file in a folder"));
    by_file[file.name];
  }
  for (const auto& tensor : manifest.tensors)
    for (const auto& piece : tensor.pieces) {
      const auto found = by_file.find(piece.file);
      if (found == by_file.end())
        throw CorruptCheckpoint(str(where, ": tensor ", tensor.name, " lies in '", piece.file,
                                    "', which is no file of the checkpoint"));
      found->second.push_back({&tensor, &piece});
    }
  for (const auto& file : manifest.files) check_extents(file, std::move(by_file[file.name]), where);
}

}  // namespace

const StoredTensor* Manifest::find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const StoredTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

std::int64_t Manifest::stored_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& file : files) bytes += file.bytes;
  return bytes;
}

std::int64_t Manifest::raw_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += tensor.shape.count() * size_of(tensor.dtype);
  return bytes;
}

void check_manifest(const Manifest& manifest, const std::string& where) {
  if (manifest.state.step < 0 || manifest.state.samples < 0 || manifest.generation < 1)
    throw CorruptCheckpoint(str(where, ": step ", manifest.state.step, ", samples ", manifest.state.samples,
                                ", generation ", manifest.generation, " cannot be"));
  if (!names_ascend(manifest.tensors) || !names_ascend(manifest.files))
    throw CorruptCheckpoint(str(where, ": names of tensors or files are not in ascending order, each once"));
  for (const auto& tensor : manifest.tensors) check_tensor(tensor, where);
  check_layout_of_files(manifest, where);
}

void check_files(FileSystem& fs, const Path& dir, const Manifest& manifest) {
  for (const auto& file : manifest.files) {
    const Path path = dir / file.name;
    if (fs.kind(path) != PathKind::file)
      throw CorruptCheckpoint(str(path.string(), " is missing; it should have ", file.bytes, " bytes"));
    if (const auto found = fs.open(path)->size(); found != file.bytes)
      throw CorruptCheckpoint(
          str(path.string(), " has ", found, " bytes where ", file.bytes, " are expected"));
  }
}

std::string read_manifest_text(FileSystem& fs, const Path& dir) {
  const Path path = dir / kManifestName;
  if (fs.kind(path) != PathKind::file)
    throw CorruptCheckpoint(str(dir.string(), " is no complete checkpoint: it has no ", kManifestName));
  return read_text(fs, path);
}

Manifest read_manifest(FileSystem& fs, const Path& dir) {
  Manifest manifest = manifest_from(read_manifest_text(fs, dir), (dir / kManifestName).string());
  check_files(fs, dir, manifest);
  return manifest;
}

}  // namespace fivefold
