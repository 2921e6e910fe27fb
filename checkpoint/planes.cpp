// Plain loops over one unsigned type per width, written so that the compiler turns them into vector code.
#include "checkpoint/planes.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/error.h"

namespace fivefold {

namespace {

static_assert(std::endian::native == std::endian::little,
              "checkpoints hold little-endian numbers as they lie in memory");

template <class U>
void split(const std::byte* in, std::byte* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    U value;
    std::memcpy(&value, in + i * sizeof(U), sizeof(U));
    value = std::rotl(value, 1);
    for (std::size_t p = 0; p < sizeof(U); ++p) out[p * count + i] = static_cast<std::byte>(value >> (8 * p));
  }
}

template <class U>
void join(const std::byte* in, std::byte* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    U value = 0;
    for (std::size_t p = 0; p < sizeof(U); ++p)
      value = static_cast<U>(value | static_cast<U>(static_cast<U>(in[p * count + i]) << (8 * p)));
    value = std::rotr(value, 1);
    std::memcpy(out + i * sizeof(U), &value, sizeof(U));
  }
}

// Calls f(U{}) with the unsigned type of `width` bytes.
template <class F>
void with_unsigned(int width, F&& f) {
  switch (width) {
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    case 8:
      return f(std::uint64_t{});
    default:
      fail(__FILE__, __LINE__, "planes are of elements of 1, 2, 4 or 8 bytes", str(width));
  }
}

}  // namespace

void split_planes(int width, std::span<const std::byte> in, std::span<std::byte> out) {
  if (width == 1) return static_cast<void>(std::memcpy(out.data(), in.data(), in.size()));
  with_unsigned(width, [&](auto u) { split<decltype(u)>(in.data(), out.data(), in.size() / sizeof(u)); });
}

void join_planes(int width, std::span<const std::byte> in, std::span<std::byte> out) {
  if (width == 1) return static_cast<void>(std::memcpy(out.data(), in.data(), in.size()));
  with_unsigned(width, [&](auto u) { join<decltype(u)>(in.data(), out.data(), in.size() / sizeof(u)); });
}

}  // namespace fivefold
