// A ring is a walk of keys in one direction, a window two short walks.
#include "parallel/context/ring_plan.h"

#include "core/error.h"
#include "core/types.h"

namespace fivefold {

namespace {

// Appends `count` steps in which keys move by `direction` (+1 or -1) from rank to rank, starting with the
// own.
void append_walk(std::vector<RingStep>& plan, int cp, int rank, int direction, int count) {
  const auto at = [&](int distance) { return ((rank + direction * distance) % cp + cp) % cp; };
  for (int d = 1; d <= count; ++d) {
    const bool last = d == count;
    plan.push_back({.owner = at(-d),
                    .source = d == 1 ? 0 : static_cast<int>(plan.size()) - 1,
                    .keys_to = at(1),
                    .keys_from = at(-1),
                    .gradients_to = last ? at(-d) : at(1),
                    .gradients_from = last ? at(d) : at(-1),
                    .gradients_home = last});
  }
}

}  // namespace

std::vector<RingStep> ring_plan(int cp, int rank, std::int64_t reach) {
  FF_CHECK(0 <= rank && rank < cp && reach >= 0, "rank ", rank, " of ", cp, ", reach ", reach);
  std::vector<RingStep> plan{{.owner = rank}};
  if (2 * reach + 1 >= cp) {
    append_walk(plan, cp, rank, 1, cp - 1);
  } else {
    append_walk(plan, cp, rank, 1, static_cast<int>(reach));
    append_walk(plan, cp, rank, -1, static_cast<int>(reach));
  }
  return plan;
}

std::int64_t window_reach(std::int64_t window, std::int64_t chunk_rows, int cp) {
  if (window == 0 || chunk_rows == 0) return cp - 1;
  return std::min<std::int64_t>(ceil_div(window - 1, chunk_rows), cp - 1);
}

}  // namespace fivefold
