// An f32 in two halves of 16 bits: the bf16 nearest to it and a remainder.
//
// With ties to even, 65537 numbers round to an even bf16 and 65535 to an odd one, so no 16 bits could tell
// them apart. With ties away from zero it is 65536 each: adding half a bf16 step to the bit pattern rounds
// the size, and what that changed is a signed 16-bit number. So (upper, remainder) <-> f32 is one to one,
// but for NaNs, which all become the one NaN with the bits 7fc00000.
#pragma once
#include "core/types.h"

namespace fivefold {

struct SplitF32 {
  bf16 upper;                  // nearest to the number, ties away from zero; infinity from 3.396e38 on
  std::int16_t remainder = 0;  // bits of the number - bits of `upper` as an f32
};

inline SplitF32 split(float x) {
  auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) bits = 0x7fc00000u;
  SplitF32 out;
  out.upper.bits = static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
  out.remainder = static_cast<std::int16_t>(static_cast<std::uint16_t>(bits));
  return out;
}

inline float join(bf16 upper, std::int16_t remainder) {
  const auto rest = static_cast<std::uint32_t>(static_cast<std::int32_t>(remainder));
  return std::bit_cast<float>((static_cast<std::uint32_t>(upper.bits) << 16) + rest);
}

}  // namespace fivefold
