// A text file read once, front to back, through a buffer of fixed size.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fivefold {

class InputFile {
 public:
  // Throws UserError where the file cannot be opened or is a folder.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  // What is buffered and not consumed; valid until the next refill.
  std::string_view rest() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void consume(std::size_t bytes) { begin_ += bytes; }
  // Reads more behind rest(); false at the file's end. rest() must be shorter than half the buffer.
  bool refill();
  std::int64_t bytes_read() const { return bytes_read_; }

 private:
  std::string path_;
  int fd_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::int64_t bytes_read_ = 0;
};

}  // namespace fivefold
