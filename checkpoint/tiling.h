// Whether boxes tile a tensor exactly, and which ones do not.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "parallel/mesh/partition.h"

namespace fivefold {

// A sentence on what is wrong: a box outside the shape, empty, overlapping another, or elements that no box
// holds. Nothing if the boxes tile `shape`. O(n log n) for boxes cut along dim 0, O(n x cuts of the other
// dims) in general.
std::optional<std::string> tiling_problem(const Shape& shape, std::span<const Box> boxes);

}  // namespace fivefold
