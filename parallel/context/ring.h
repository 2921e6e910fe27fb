// Ring attention (Liu et al. 2023): keys and values travel around the context ranks, each rank's rows meet
// one rank's keys at a time, and partial results merge by their log-sum-exp (Milakov & Gimelshein 2018).
//
// The transfer of a step runs while the step before computes. Partial results, dq and the travelling dk and
// dv stay in the accumulate dtype and are rounded once at the end. Every rank makes every transfer of the
// plan; rows that see no key of a step, or no key at all, get exactly 0 from it.
#pragma once
#include <span>

#include "parallel/context/attend.h"
#include "parallel/context/ring_plan.h"

namespace fivefold {

// `state` has q and the own k, v, k_index; out and lse are made. Keys travel with their k_index.
void ring_forward(const Run& run, Communicator& cp, std::span<const RingStep> plan, double scale,
                  AttentionState& state);
AttentionGradients ring_backward(const Run& run, Communicator& cp, std::span<const RingStep> plan,
                                 double scale, const Tensor& d_out, const AttentionState& state);

}  // namespace fivefold
