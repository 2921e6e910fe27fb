// Who meets whose keys when, in ring attention: data, made by a pure function, printed by tests and executed
// by one loop (ring.cpp).
#pragma once
#include <cstdint>
#include <vector>

namespace fivefold {

// Ranks are cp ranks. Step 0 meets the own keys and moves nothing.
struct RingStep {
  int owner = 0;                // whose keys and values this rank meets
  int source = -1;              // step whose keys and values are sent on to make this step's transfer
  int keys_to = -1;             // they go to this rank ...
  int keys_from = -1;           // ... and the owner's come from this one
  int gradients_to = -1;        // where the sums of the owner's dk and dv go after this step
  int gradients_from = -1;      // and whence others come in exchange:
  bool gradients_home = false;  // all of the sums that other ranks made for the own keys; else those of the
                                // next step's owner, to be added to
  bool operator==(const RingStep&) const = default;
};

// Rows see keys of `reach` neighbours on either side at most (see window_reach). While 2 reach + 1 < cp keys
// go reach steps up and then reach steps down; otherwise they go once around, cp - 1 steps up. All ranks have
// equally many steps and make the same kind of transfer in each, whatever their rows see: no transfer depends
// on data.
std::vector<RingStep> ring_plan(int cp, int rank, std::int64_t reach);

// How many ranks away a key can lie that a row sees through a window, where rows are dealt zigzag in chunks
// of `chunk_rows`: neighbouring chunks lie on neighbouring ranks or on one. window 0: no limit, cp - 1.
std::int64_t window_reach(std::int64_t window, std::int64_t chunk_rows, int cp);

}  // namespace fivefold
