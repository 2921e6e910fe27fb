// Context parallel attention by exchanging heads for rows (Jacobs et al. 2023): in: all heads of this rank's
// rows; inside: this rank's share of the heads for all rows, in order of the ranks; out: all heads of this
// rank's rows again.
#pragma once
#include "parallel/context/attend.h"

namespace fivefold {

// Heads of k and v that a rank works with: where cp does not divide the kv heads each is repeated as often as
// makes their number lcm(kv_heads, cp), and the gradients of the repeats are summed.
std::int64_t ulysses_kv_heads(std::int64_t kv_heads, int cp);

// `state` has this rank's q, k, v and rows; afterwards it has those of its share of the heads for all rows,
// which is what the backward works on. Returns the output of this rank's rows, [T, Hq, vd]. cp must divide
// Hq.
Tensor ulysses_forward(const Run& run, Communicator& cp, double scale, AttentionState& state);
// Gradients of this rank's rows. `kv_heads`: of k and v before the exchange.
AttentionGradients ulysses_backward(const Run& run, Communicator& cp, double scale, std::int64_t kv_heads,
                                    const Tensor& d_out, const AttentionState& state);

}  // namespace fivefold
