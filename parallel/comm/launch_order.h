// Checks after a run that one total order of all transfers exists: the property without which NCCL may hang
// (DESIGN rule 7).
#pragma once
#include <span>
#include <vector>

#include "parallel/comm/ledger.h"

namespace fivefold {

// `by_world_rank[r]`: every record of rank r's ledger (keep_all), oldest first. Throws Error unless all
// members of each group made the same sequence of (op, bytes) and the union of all launch orders is acyclic;
// the message names the transfers of the circle, or the rank that never launched its part. The transfers of a
// Group are one node of the order.
void check_launch_order(std::span<const std::vector<LedgerRecord>> by_world_rank);

}  // namespace fivefold
