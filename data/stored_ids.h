// Token ids as files store them (fixed width, little-endian, any alignment), widened to int32.
#pragma once
#include <cstdint>
#include <span>

#include "data/mapped_file.h"

namespace fivefold {

enum class IdKind : std::uint8_t { u8, i8, u16, i16, u32, i32, i64 };

constexpr std::int64_t size_of(IdKind kind) {
  switch (kind) {
    case IdKind::u8:
    case IdKind::i8:
      return 1;
    case IdKind::u16:
    case IdKind::i16:
      return 2;
    case IdKind::u32:
    case IdKind::i32:
      return 4;
    case IdKind::i64:
      return 8;
  }
  return 0;
}

// Ids [first, first + out.size()) of the array at byte `offset`, which must lie inside the file; -1 for an id
// that no int32 holds.
void copy_ids(const MappedFile& file, std::int64_t offset, IdKind kind, std::int64_t first,
              std::span<std::int32_t> out);
// One id as stored.
std::int64_t stored_id(const MappedFile& file, std::int64_t offset, IdKind kind, std::int64_t index);

}  // namespace fivefold
