// The nearest known name to a mistyped one, for messages that name it ("unknown option '--stpes'; the nearest
// is '--steps'").
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace fivefold {

// Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions and swaps of
// two neighbours cost 1 each. O(|a| x |b|).
int edit_distance(std::string_view a, std::string_view b);

// The candidate with the smallest distance to `name`, the first of equals; empty when there are no
// candidates.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace fivefold
