// Byte planes: the bytes of equal significance of many numbers, side by side.
#pragma once
#include <cstddef>
#include <span>

namespace fivefold {

// Elements of `width` bytes (1, 2, 4 or 8; little endian). Each is rotated left by one bit, which moves a
// floating number's sign to the lowest bit and its exponent to the top of the highest byte; then byte p of
// element i goes to out[p * count + i]. Width 1 copies. in.size() == out.size(), a multiple of width.
void split_planes(int width, std::span<const std::byte> in, std::span<std::byte> out);
// The inverse.
void join_planes(int width, std::span<const std::byte> in, std::span<std::byte> out);

}  // namespace fivefold
