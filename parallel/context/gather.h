// Context parallel attention by collecting all keys and values: fewer, larger transfers than a ring, and room
// for the keys of the whole sequence while a layer computes.
#pragma once
#include "parallel/context/attend.h"

namespace fivefold {

// `state` has q and the own k, v, k_index; out and lse are made, and k_index becomes that of all ranks. Keys
// are collected again in backward; dk and dv are summed over the ranks in the accumulate dtype.
void gather_forward(const Run& run, Communicator& cp, double scale, AttentionState& state);
AttentionGradients gather_backward(const Run& run, Communicator& cp, double scale, const Tensor& d_out,
                                   const AttentionState& state);

}  // namespace fivefold
