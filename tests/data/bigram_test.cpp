// The bigram table's entropy against values worked out by hand.
#include "data/bigram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "data/build.h"

namespace fivefold {
namespace {

double entropy_of(const std::string& text, const std::string& name) {
  const auto dir = std::filesystem::path(testing::TempDir()) / ("bigram_" + name);
  std::filesystem::create_directories(dir);
  std::ofstream(dir / "in.txt", std::ios::binary) << text;
  BuildOptions options;
  options.inputs = {(dir / "in.txt").string()};
  options.out = (dir / "out.tok").string();
  build_tokens(options);
  const double entropy = bigram_entropy(*open_token_file(options.out));
  std::filesystem::remove_all(dir);
  return entropy;
}

// a -> b, b -> a, and the last b -> end: b is followed by a twice and by the end once; 6 pairs.
TEST(Bigram, CountsPairsWithTheEndOfTheDocument) {
  const double b = 2 * std::log(3.0 / 2) + std::log(3.0);
  EXPECT_NEAR(entropy_of("ababab", "ab"), b / 6, 1e-12);
}

TEST(Bigram, CertainSuccessorsHaveNoEntropy) { EXPECT_EQ(entropy_of("abc", "abc"), 0); }

// Longer than a block of the reader: pairs across its edge count too.
TEST(Bigram, BlocksJoin) {
  std::string text;
  for (int i = 0; i < 70'000; ++i) text += "ab";
  const double n = 70'000;
  const double b = (n - 1) * std::log(n / (n - 1)) + std::log(n);
  EXPECT_NEAR(entropy_of(text, "long"), b / (2 * n), 1e-9);
}

}  // namespace
}  // namespace fivefold
