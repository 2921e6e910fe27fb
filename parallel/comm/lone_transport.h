// A rank without the others: its transfers are checked and recorded in the ledger, and move nothing. A world
// of one rank is whole that way, since a group of one is the identity: comparisons with one rank run in it.
// In a larger world it serves dry runs, whose tensors have no bytes.
#pragma once
#include "parallel/comm/communicator.h"

namespace fivefold {

// Rank `rank` of `world`.
std::unique_ptr<Transport> make_lone_transport(int rank = 0, int world = 1);

}  // namespace fivefold
