// A whole file mapped read-only into memory. Pages are read when touched, so opening costs nothing for any
// size.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace fivefold {

class MappedFile {
 public:
  // Throws UserError where the file cannot be opened (a missing one names its nearest neighbour) or is a
  // directory.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  const std::byte* data() const { return data_; }
  std::int64_t size() const { return size_; }
  // Bytes [offset, offset + count), which must lie inside the file.
  std::span<const std::byte> bytes(std::int64_t offset, std::int64_t count) const;
  // The T stored little-endian at `offset`, which need not be aligned. The caller has checked the size.
  template <class T>
  T get(std::int64_t offset) const {
    T value;
    std::memcpy(&value, data_ + offset, sizeof value);
    return value;
  }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
};

// True where `path` names anything.
bool file_exists(const std::string& path);

// One sentence: the file cannot be opened, why (errno value `error`), and for a missing file the nearest name
// beside it.
std::string cannot_open(const std::string& path, int error);

}  // namespace fivefold
