#include "data/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "data/mapped_file.h"

namespace fivefold {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

std::string folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// Makes a rename in the folder durable.
void sync_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = fd >= 0 && ::fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (!synced) throw Error(str("cannot sync folder '", folder, "': ", std::strerror(error)));
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  partial_path_ = str(path_, ".partial-", ::getpid());
  if (std::filesystem::is_directory(path_))
    throw UserError(str("'", path_, "' is a folder, so it cannot be written as a file"));
  fd_ = ::open(partial_path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0)
    throw UserError(
        str("cannot write '", path_, "': ", std::strerror(errno), " (folder '", folder_of(path_), "')"));
  buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(partial_path_.c_str());
}

void OutputFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (buffer_.size() == kBufferBytes) flush();
    const auto part = bytes.first(std::min(bytes.size(), kBufferBytes - buffer_.size()));
    buffer_.insert(buffer_.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
  }
}

void OutputFile::overwrite(std::int64_t offset, std::span<const std::byte> bytes) {
  flush();
  FF_CHECK(offset + static_cast<std::int64_t>(bytes.size()) <= written_, path_, ": offset ", offset, " of ",
           written_);
  write_all(bytes, offset);
}

void OutputFile::read_back(std::int64_t offset, std::span<std::byte> bytes) {
  flush();
  while (!bytes.empty()) {
    const auto count = ::pread(fd_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail_write("read back");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

void OutputFile::commit() {
  flush();
  if (::fsync(fd_) != 0) fail_write("sync");
  if (::rename(partial_path_.c_str(), path_.c_str()) != 0) fail_write("rename");
  ::close(std::exchange(fd_, -1));
  sync_folder(folder_of(path_));
}

void OutputFile::flush() {
  write_all(buffer_, written_);
  written_ += static_cast<std::int64_t>(buffer_.size());
  buffer_.clear();
}

void OutputFile::write_all(std::span<const std::byte> bytes, std::int64_t offset) {
  while (!bytes.empty()) {
    const auto count = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail_write("write");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

void OutputFile::fail_write(const char* call) const {
  throw Error(str("cannot ", call, " '", path_, "': ", std::strerror(errno)));
}

}  // namespace fivefold
