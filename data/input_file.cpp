#include "data/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "data/mapped_file.h"

namespace fivefold {
namespace {
constexpr std::size_t kBufferBytes = 256 << 10;  // stays in the second-level cache on its way to the output
}

InputFile::InputFile(std::string path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (fd_ < 0) throw UserError(cannot_open(path_, errno));
  struct stat info {};
  if (::fstat(fd_, &info) == 0 && S_ISDIR(info.st_mode)) {
    ::close(fd_);
    throw UserError(str("'", path_, "' is a folder: name the .txt and .jsonl files in it"));
  }
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
  buffer_.resize(kBufferBytes);
}

InputFile::~InputFile() { ::close(fd_); }

bool InputFile::refill() {
  const std::size_t kept = end_ - begin_;
  FF_CHECK(kept <= kBufferBytes / 2, path_, ": ", kept, " bytes are still unread");
  std::memmove(buffer_.data(), buffer_.data() + begin_, kept);
  begin_ = 0;
  end_ = kept;
  ssize_t count = 0;
  do {
    count = ::read(fd_, buffer_.data() + end_, kBufferBytes - end_);
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw Error(str("cannot read '", path_, "': ", std::strerror(errno)));
  end_ += static_cast<std::size_t>(count);
  bytes_read_ += count;
  return count > 0;
}

}  // namespace fivefold
