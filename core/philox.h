// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC11). A value is a pure function of (key, counter), so it does not depend on who asks, in which order, or
// on how many ranks.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace fivefold {

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox(std::uint64_t key, PhiloxBlock c) {
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}
constexpr PhiloxBlock philox(std::uint64_t key, std::uint64_t low, std::uint64_t high) {
  return philox(key, PhiloxBlock{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
                                 static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)});
}

// FNV-1a, 64 bits: turns a name into a counter word. Fixed for ever: initial values depend on it.
constexpr std::uint64_t hash_name(std::string_view name) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return h;
}

// In (0, 1), never 0 or 1: (u + 0.5) / 2^32.
constexpr double unit_uniform(std::uint32_t u) { return (static_cast<double>(u) + 0.5) * 0x1p-32; }

// Element `i` of the standard normal sequence named (seed, stream): Box-Muller on block i / 2.
inline double philox_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t i) {
  const auto block = philox(seed, i / 2, stream);
  const double radius = std::sqrt(-2.0 * std::log(unit_uniform(block[0])));
  const double angle = 2.0 * std::numbers::pi * unit_uniform(block[1]);
  return radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

// Element `i` of the uniform (0, 1) sequence named (seed, stream).
inline double philox_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t i) {
  return unit_uniform(philox(seed, i / 4, stream)[i % 4]);
}

}  // namespace fivefold
