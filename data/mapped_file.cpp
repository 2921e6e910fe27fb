#include "data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/nearest.h"

namespace fivefold {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and read in place");

bool file_exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

std::string cannot_open(const std::string& path, int error) {
  std::string sentence = str("cannot open '", path, "': ", std::strerror(error));
  if (error != ENOENT) return sentence;
  const auto full = std::filesystem::path(path);
  const auto folder = full.has_parent_path() ? full.parent_path() : std::filesystem::path(".");
  std::vector<std::string> names;
  std::error_code ignored;
  constexpr std::size_t kMostNames = 10000;  // a mistyped name in a huge folder must not cost minutes
  for (auto it = std::filesystem::directory_iterator(folder, ignored);
       !ignored && it != std::filesystem::directory_iterator() && names.size() < kMostNames;
       it.increment(ignored))
    names.push_back(it->path().filename().string());
  const auto nearest = nearest_name(full.filename().string(), names);
  if (!nearest.empty()) sentence += str("; the nearest name there is '", nearest, "'");
  return sentence;
}

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw UserError(cannot_open(path_, errno));
  struct stat info {};
  const bool known = ::fstat(fd, &info) == 0;
  size_ = known ? info.st_size : 0;
  const bool regular = known && S_ISREG(info.st_mode);
  void* mapped = nullptr;
  if (regular && size_ > 0)
    mapped = ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
  const int error = errno;
  ::close(fd);
  if (!regular) throw UserError(str("'", path_, "' is not a regular file, so it cannot be mapped"));
  if (mapped == MAP_FAILED)
    throw Error(str("cannot map '", path_, "' (", size_, " bytes): ", std::strerror(error)));
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(size_));
}

std::span<const std::byte> MappedFile::bytes(std::int64_t offset, std::int64_t count) const {
  FF_CHECK(offset >= 0 && count >= 0 && offset <= size_ - count, path_, ": [", offset, ", +", count, ") of ",
           size_);
  return {data_ + offset, static_cast<std::size_t>(count)};
}

}  // namespace fivefold
