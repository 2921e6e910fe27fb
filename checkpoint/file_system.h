// The few file operations that checkpoints are made of, each one a point where a machine can fail. Tests
// replace them by a file system that breaks at a chosen call or forgets what was never synchronised.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"

namespace fivefold {

using Path = std::filesystem::path;

// An operation of the file system failed. The message names operation, path and the system's reason.
class IoError : public Error {
 public:
  using Error::Error;
};

// A file being written, from its start to its end. Dropping one that was not closed closes it without a word.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual void append(std::span<const std::byte> bytes) = 0;
  // Returns when everything appended so far would survive a power loss (the file's name may still not).
  virtual void sync() = 0;
  virtual void close() = 0;
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual std::int64_t size() const = 0;
  // Fills `out` from `offset`; a file that ends before is an error, never a short read. Thread safe.
  virtual void read_at(std::int64_t offset, std::span<std::byte> out) const = 0;
};

struct DirEntry {
  std::string name;
  bool directory = false;
  bool operator==(const DirEntry&) const = default;
};

enum class PathKind : std::uint8_t { none, file, directory };

// Every function throws IoError on failure. Thread safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // A new file, or an old one emptied.
  virtual std::unique_ptr<WritableFile> create(const Path& path) = 0;
  virtual std::unique_ptr<ReadableFile> open(const Path& path) = 0;
  // Atomic. Replaces a file by a file; a directory moves only to a name that is free.
  virtual void rename(const Path& from, const Path& to) = 0;
  // A file or an empty directory.
  virtual void remove(const Path& path) = 0;
  // The parent exists, the directory does not.
  virtual void make_dir(const Path& path) = 0;
  // Returns when the names in this directory (new, renamed, removed) would survive a power loss.
  virtual void sync_dir(const Path& path) = 0;
  virtual std::vector<DirEntry> list(const Path& path) = 0;  // sorted by name
  virtual PathKind kind(const Path& path) = 0;
};

// The operating system's files.
class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const Path& path) override;
  std::unique_ptr<ReadableFile> open(const Path& path) override;
  void rename(const Path& from, const Path& to) override;
  void remove(const Path& path) override;
  void make_dir(const Path& path) override;
  void sync_dir(const Path& path) override;
  std::vector<DirEntry> list(const Path& path) override;
  PathKind kind(const Path& path) override;
};

// The whole file.
std::string read_text(FileSystem& fs, const Path& path);
// Writes beside the file, synchronises, renames over it and synchronises the directory: afterwards the name
// holds the old text or the new one, whatever happens. The temporary name is `path` + ".tmp".
void write_text_durably(FileSystem& fs, const Path& path, const std::string& text);
// Makes the directory and its missing parents; their names survive a power loss. Fine if it exists already.
void make_dirs_durably(FileSystem& fs, const Path& path);
// Removes a directory with everything below it. Fine if there is none.
void remove_tree(FileSystem& fs, const Path& path);

}  // namespace fivefold
