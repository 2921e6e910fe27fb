// The configurations that the repository ships work with this version.
#include <gtest/gtest.h>

#include <filesystem>

#include "launcher/options.h"
#include "launcher/supported.h"

namespace fivefold {
namespace {

TEST(Configs, EveryShippedFileIsValidAndSupported) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(FIVEFOLD_FIXTURES) + "/../../configs")) {
    if (entry.path().extension() != ".conf") continue;
    SCOPED_TRACE(entry.path().string());
    const auto config = resolve(read_config_file(entry.path().string())).config;
    for (int world : {1, 4}) EXPECT_NO_THROW(check(config, world));
    EXPECT_NO_THROW(check_supported(config));
    ++files;
  }
  EXPECT_GE(files, 3);
}

}  // namespace
}  // namespace fivefold
