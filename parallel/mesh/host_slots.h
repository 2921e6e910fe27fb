// Finds out where every rank runs, so that the mesh need not trust the order in which a launcher numbered
// them.
#pragma once
#include <optional>

#include "parallel/mesh/mesh.h"

namespace fivefold {

// Collective over `world`: the slot of every world rank. Where any rank of a host has no local rank from its
// launcher, or two have the same, that host's ranks are numbered by world rank.
std::vector<HostSlot> gather_host_slots(Communicator& world, const std::string& host,
                                        std::optional<int> local_rank);

}  // namespace fivefold
