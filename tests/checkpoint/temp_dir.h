// A real directory that goes away with the test.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>

#include "checkpoint/file_system.h"

namespace fivefold::test {

class TempDir {
 public:
  TempDir() {
    auto pattern = (Path(testing::TempDir()) / "fivefold-checkpoint-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw Error(str("cannot make ", pattern));
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const Path& path() const { return path_; }

 private:
  Path path_;
};

}  // namespace fivefold::test
