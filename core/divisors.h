// Nearest legal values for messages about degrees and sizes.
#pragma once
#include <cstdint>

namespace fivefold {

// The divisor of n closest to `wanted`, the smaller of two equally close ones; n >= 1.
constexpr std::int64_t nearest_divisor(std::int64_t n, std::int64_t wanted) {
  for (std::int64_t distance = 0;; ++distance) {
    if (const auto low = wanted - distance; low >= 1 && low <= n && n % low == 0) return low;
    if (const auto high = wanted + distance; high >= 1 && high <= n && n % high == 0) return high;
  }
}

// The positive multiple of `unit` closest to `wanted`, the smaller of two equally close ones.
constexpr std::int64_t nearest_multiple(std::int64_t unit, std::int64_t wanted) {
  const std::int64_t low = wanted / unit * unit;
  if (low <= 0) return unit;
  return wanted - low <= low + unit - wanted ? low : low + unit;
}

}  // namespace fivefold
