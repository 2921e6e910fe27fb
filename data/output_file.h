// A file that appears under its name only when it is whole: written beside it under another name, flushed to
// the disk, then renamed. Writes are buffered; an output that is dropped before commit leaves nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fivefold {

class OutputFile {
 public:
  // Throws UserError where the folder does not let a file be made.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t size() const { return written_ + static_cast<std::int64_t>(buffer_.size()); }
  // Failed writes throw Error with the path and the reason.
  void append(std::span<const std::byte> bytes);
  // Writes over bytes that were appended before.
  void overwrite(std::int64_t offset, std::span<const std::byte> bytes);
  // Reads bytes that were appended before.
  void read_back(std::int64_t offset, std::span<std::byte> bytes);
  // Flushes, syncs, renames, syncs the folder. Nothing may follow.
  void commit();

 private:
  void flush();
  void write_all(std::span<const std::byte> bytes, std::int64_t offset);
  [[noreturn]] void fail_write(const char* call) const;

  std::string path_, partial_path_;
  int fd_ = -1;
  std::int64_t written_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace fivefold
