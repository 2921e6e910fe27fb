// How context parallel ranks, which hold parts of each sequence, let their rows see the keys of the others.
#pragma once
#include <array>
#include <cstdint>

#include "core/enum_names.h"

namespace fivefold {

// ring: keys and values travel from rank to rank. gather: every rank collects all keys and values. ulysses:
// every rank gets some heads of all rows. Rows are dealt zigzag for ring and gather, contiguously for
// ulysses.
enum class CpStrategy : std::uint8_t { ring, gather, ulysses };

template <>
inline constexpr auto kEnumNames<CpStrategy> = std::to_array<std::string_view>({"ring", "gather", "ulysses"});

}  // namespace fivefold
