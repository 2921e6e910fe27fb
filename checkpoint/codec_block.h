// Layout of a block of planes, shared by encoder and decoder (docs/formats/checkpoint.md; written to disk, do
// not change):
//   u32 raw bytes | per plane u32: bit 31 set = a zstd frame, bits 0..30 stored bytes | the planes' bytes
#pragma once
#include <array>

#include "checkpoint/codec.h"

namespace fivefold {

constexpr std::uint32_t kCompressedPlane = std::uint32_t{1} << 31;
constexpr std::size_t kMaxPlanes = 8;
using BlockHeader = std::array<std::uint32_t, 1 + kMaxPlanes>;

constexpr int planes_of(PieceCodec codec, DType dtype) {
  return codec == PieceCodec::planes ? static_cast<int>(size_of(dtype)) : 1;
}
constexpr std::size_t header_bytes(int planes) {
  return sizeof(std::uint32_t) * static_cast<std::size_t>(1 + planes);
}

}  // namespace fivefold
