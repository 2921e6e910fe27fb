// The operating system's files, by descriptors: nothing is buffered here, so every failure shows where it
// happens.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "checkpoint/file_system.h"

namespace fivefold {

namespace {

// One call never moves more: the kernel stops at 2 GiB anyway.
constexpr std::size_t kLargestTransfer = std::size_t{1} << 30;

[[noreturn]] void io_failure(const char* what, const Path& path) {
  throw IoError(str("cannot ", what, " ", path.string(), ": ", std::strerror(errno)));
}

class Descriptor {
 public:
  Descriptor(const Path& path, int flags, const char* what)
      : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0) io_failure(what, path);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd() const { return fd_; }
  const Path& path() const { return path_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  Path path_;
  int fd_;
};

class PosixWritableFile final : public WritableFile {
 public:
  explicit PosixWritableFile(const Path& path) : file_(path, O_WRONLY | O_CREAT | O_TRUNC, "create") {}
  void append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const auto n = ::write(file_.fd(), bytes.data(), std::min(bytes.size(), kLargestTransfer));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) io_failure("write", file_.path());
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  void sync() override {
    if (::fsync(file_.fd()) != 0) io_failure("synchronise", file_.path());
  }
  void close() override {
    if (::close(file_.release()) != 0) io_failure("close", file_.path());
  }

 private:
  Descriptor file_;
};

class PosixReadableFile final : public ReadableFile {
 public:
  explicit PosixReadableFile(const Path& path) : file_(path, O_RDONLY, "open") {
    struct stat info {};
    if (::fstat(file_.fd(), &info) != 0) io_failure("examine", path);
    if (!S_ISREG(info.st_mode)) throw IoError(str("cannot open ", path.string(), ": it is not a file"));
    size_ = info.st_size;
  }
  std::int64_t size() const override { return size_; }
  void read_at(std::int64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const auto n = ::pread(file_.fd(), out.data(), std::min(out.size(), kLargestTransfer), offset);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) io_failure("read", file_.path());
      if (n == 0)
        throw IoError(str("cannot read ", file_.path().string(), ": it ends at byte ", offset, ", ",
                          out.size(), " more are wanted"));
      out = out.subspan(static_cast<std::size_t>(n));
      offset += n;
    }
  }

 private:
  Descriptor file_;
  std::int64_t size_ = 0;
};

bool is_directory(const Path& directory, const dirent& entry) {
  if (entry.d_type != DT_UNKNOWN && entry.d_type != DT_LNK) return entry.d_type == DT_DIR;
  struct stat info {};
  return ::stat((directory / entry.d_name).c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

std::unique_ptr<WritableFile> PosixFileSystem::create(const Path& path) {
  return std::make_unique<PosixWritableFile>(path);
}

std::unique_ptr<ReadableFile> PosixFileSystem::open(const Path& path) {
  return std::make_unique<PosixReadableFile>(path);
}

void PosixFileSystem::rename(const Path& from, const Path& to) {
  if (kind(from) == PathKind::directory && kind(to) != PathKind::none)
    throw IoError(str("cannot rename ", from.string(), " to ", to.string(), ": that name is taken"));
  if (::rename(from.c_str(), to.c_str()) != 0) io_failure(str("rename ", from.string(), " to").c_str(), to);
}

void PosixFileSystem::remove(const Path& path) {
  if (std::remove(path.c_str()) != 0) io_failure("remove", path);
}

void PosixFileSystem::make_dir(const Path& path) {
  if (::mkdir(path.c_str(), 0777) != 0) io_failure("make directory", path);
}

void PosixFileSystem::sync_dir(const Path& path) {
  const Descriptor directory(path.empty() ? Path(".") : path, O_RDONLY | O_DIRECTORY, "open directory");
  // Some network file systems cannot synchronise a directory and need not: their names are durable at once.
  if (::fsync(directory.fd()) != 0 && errno != EINVAL && errno != ENOTSUP)
    io_failure("synchronise directory", path);
}

std::vector<DirEntry> PosixFileSystem::list(const Path& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  if (!directory) io_failure("list", path);
  std::vector<DirEntry> entries;
  errno = 0;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") entries.push_back({name, is_directory(path, *entry)});
    errno = 0;
  }
  if (errno != 0) io_failure("list", path);
  std::sort(entries.begin(), entries.end(),
            [](const DirEntry& a, const DirEntry& b) { return a.name < b.name; });
  return entries;
}

PathKind PosixFileSystem::kind(const Path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return PathKind::none;
    io_failure("examine", path);
  }
  return S_ISDIR(info.st_mode) ? PathKind::directory : PathKind::file;
}

}  // namespace fivefold
