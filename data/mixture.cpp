#include "data/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace fivefold {
namespace {

__extension__ using Wide = unsigned __int128;

// How many of the first i slots a share takes: i x share rounded to the nearest integer.
std::int64_t taken(std::int64_t i, std::uint64_t share) {
  return static_cast<std::int64_t>(
      (static_cast<Wide>(static_cast<std::uint64_t>(i)) * share + (1ull << 31)) >> 32);
}

}  // namespace

Mixture::Mixture(std::span<const double> weights) {
  FF_CHECK(!weights.empty(), "no source");
  for (const double weight : weights) FF_CHECK(std::isfinite(weight) && weight > 0.0, "weight ", weight);
  for (std::size_t s = 0; s + 1 < weights.size(); ++s) {
    const double rest = std::accumulate(weights.begin() + static_cast<std::ptrdiff_t>(s), weights.end(), 0.0);
    shares_.push_back(
        static_cast<std::uint64_t>(std::clamp(std::round(weights[s] / rest * 0x1p32), 1.0, 0x1p32 - 1)));
  }
}

Mixture::Place Mixture::locate(std::int64_t i) const {
  FF_CHECK(i >= 0, "sample ", i);
  for (std::size_t s = 0; s < shares_.size(); ++s) {
    const std::int64_t before = taken(i, shares_[s]);
    if (taken(i + 1, shares_[s]) > before) return {static_cast<std::int64_t>(s), before};
    i -= before;
  }
  return {static_cast<std::int64_t>(shares_.size()), i};
}

}  // namespace fivefold
