// Boxes are visited by ascending begin of dim 0; only those still open there can overlap. Disjoint boxes
// inside the shape tile it exactly when their counts add up to it.
#include "checkpoint/tiling.h"

#include <algorithm>
#include <vector>

namespace fivefold {

namespace {

bool inside(const Box& box, const Shape& shape) {
  if (box.begin.rank() != shape.rank() || box.end.rank() != shape.rank()) return false;
  for (int d = 0; d < shape.rank(); ++d)
    if (box.begin[d] < 0 || box.begin[d] >= box.end[d] || box.end[d] > shape[d]) return false;
  return true;
}

std::vector<Box> by_first_row(std::span<const Box> boxes) {
  std::vector<Box> sorted(boxes.begin(), boxes.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Box& a, const Box& b) { return a.begin[0] < b.begin[0]; });
  return sorted;
}

// Two boxes of `boxes` that share an element, if any. All lie inside a shape of rank >= 1.
std::optional<std::string> overlap(std::span<const Box> boxes) {
  std::vector<Box> open;
  for (const Box& box : by_first_row(boxes)) {
    std::erase_if(open, [&](const Box& other) { return other.end[0] <= box.begin[0]; });
    for (const Box& other : open)
      if (intersect(box, other).count() > 0) return str("boxes ", other, " and ", box, " overlap");
    open.push_back(box);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> tiling_problem(const Shape& shape, std::span<const Box> boxes) {
  std::int64_t held = 0;
  for (const Box& box : boxes) {
    if (!inside(box, shape)) return str("box ", box, " is empty or outside the shape ", shape);
    held += box.count();
  }
  if (shape.rank() == 0) {
    if (boxes.size() > 1) return str("one element is held by ", boxes.size(), " boxes");
  } else if (auto problem = overlap(boxes)) {
    return problem;
  }
  if (held != shape.count())
    return str("boxes hold ", held, " of the ", shape.count(), " elements of shape ", shape);
  return std::nullopt;
}

}  // namespace fivefold
