// The two choices of [data] that decide what a sample is and when it comes.
#pragma once
#include <array>
#include <cstdint>

#include "core/enum_names.h"

namespace fivefold {

// mask: a document sees only itself, its positions begin at 0 and its last token has no target.
// join: a sample is one stretch of text, whatever documents it holds.
enum class Documents : std::uint8_t { mask, join };
// shuffle: a keyed permutation per epoch. sequential: as stored.
enum class SampleOrder : std::uint8_t { shuffle, sequential };

template <>
inline constexpr auto kEnumNames<Documents> = std::to_array<std::string_view>({"mask", "join"});
template <>
inline constexpr auto kEnumNames<SampleOrder> = std::to_array<std::string_view>({"shuffle", "sequential"});

}  // namespace fivefold
