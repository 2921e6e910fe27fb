// Helpers of the data tests: a folder that goes away, whole files, and a token file made from documents.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/token_file.h"
#include "data/token_writer.h"

namespace fivefold {

using Ids = std::vector<std::int32_t>;

// A fresh folder, removed with everything in it.
class TempFolder {
 public:
  TempFolder() {
    auto pattern = (std::filesystem::path(testing::TempDir()) / "fivefold-data-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw Error(str("cannot make ", pattern));
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      found.push_back(entry.path().filename().string());
    return found;
  }

 private:
  std::filesystem::path path_;
};

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Writes documents (without end id unless `end` >= 0) as a native file of that vocabulary.
inline std::shared_ptr<const TokenFile> native_file(const std::string& path,
                                                    const std::vector<Ids>& documents, std::int64_t vocab,
                                                    std::int64_t end = -1) {
  TokenWriter writer(path, {"test", "0123456789abcdef", vocab, end});
  for (const auto& document : documents) {
    writer.append(document);
    writer.end_document();
  }
  writer.commit();
  return open_token_file(path);
}

inline Ids read_all(const TokenFile& file) {
  Ids ids(static_cast<std::size_t>(file.tokens()));
  file.read(0, ids, 0);
  return ids;
}

// The sentence of the UserError that f() throws; fails the test if it throws none.
template <class F>
std::string user_error_of(F&& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no UserError was thrown";
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace fivefold
