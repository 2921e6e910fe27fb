// Helpers made of the seam's operations, so that a test's file system sees every step of them.
#include "checkpoint/file_system.h"

namespace fivefold {

std::string read_text(FileSystem& fs, const Path& path) {
  const auto file = fs.open(path);
  std::string text(static_cast<std::size_t>(file->size()), '\0');
  file->read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void write_text_durably(FileSystem& fs, const Path& path, const std::string& text) {
  const Path temporary = path.string() + ".tmp";
  const auto file = fs.create(temporary);
  file->append(std::as_bytes(std::span(text)));
  file->sync();
  file->close();
  fs.rename(temporary, path);
  fs.sync_dir(path.parent_path());
}

void make_dirs_durably(FileSystem& fs, const Path& path) {
  if (path.empty() || fs.kind(path) == PathKind::directory) return;
  const Path parent = path.parent_path();
  make_dirs_durably(fs, parent);
  fs.make_dir(path);
  fs.sync_dir(parent.empty() ? Path(".") : parent);
}

void remove_tree(FileSystem& fs, const Path& path) {
  if (fs.kind(path) == PathKind::none) return;
  for (const auto& entry : fs.list(path)) {
    if (entry.directory)
      remove_tree(fs, path / entry.name);
    else
      fs.remove(path / entry.name);
  }
  fs.remove(path);
}

}  // namespace fivefold
