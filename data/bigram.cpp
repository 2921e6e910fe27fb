// Counts pairs, block by block.
#include "data/bigram.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace fivefold {

namespace {

constexpr std::int64_t kLargestVocab = 4096;
constexpr std::int64_t kBlock = 1 << 16;

// counts[a * vocab + b]: how often b follows a.
std::vector<std::int64_t> pair_counts(const TokenFile& file, std::int64_t vocab) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(vocab * vocab), 0);
  std::vector<std::int32_t> ids;
  for (std::int64_t first = 0; first + 1 < file.tokens(); first += kBlock) {
    ids.resize(static_cast<std::size_t>(std::min(kBlock + 1, file.tokens() - first)));
    file.read(first, ids, vocab);
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      ++counts[static_cast<std::size_t>(ids[i] * vocab + ids[i + 1])];
  }
  return counts;
}

}  // namespace

double bigram_entropy(const TokenFile& file) {
  const auto vocab = file.info().vocab;
  if (vocab < 1 || vocab > kLargestVocab)
    throw UserError(str("a bigram table is dense: it needs a recorded vocabulary of at most ", kLargestVocab,
                        ", not ", vocab));
  if (file.tokens() < 2) throw UserError(str(file.info().path, " has fewer than two tokens"));
  const auto counts = pair_counts(file, vocab);
  double sum = 0;
  for (std::int64_t a = 0; a < vocab; ++a) {
    const auto row = counts.begin() + a * vocab;
    std::int64_t total = 0;
    for (std::int64_t b = 0; b < vocab; ++b) total += row[b];
    for (std::int64_t b = 0; b < vocab; ++b)
      if (row[b] > 0)
        sum +=
            static_cast<double>(row[b]) * std::log(static_cast<double>(total) / static_cast<double>(row[b]));
  }
  return sum / static_cast<double>(file.tokens() - 1);
}

}  // namespace fivefold
