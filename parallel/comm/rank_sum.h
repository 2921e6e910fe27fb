// The one definition of how ranks' values are combined. Every host transport uses it, so their results are
// bitwise equal.
#pragma once
#include <span>

#include "parallel/comm/communicator.h"

namespace fivefold {

// out[i] = in[0][i] op in[1][i] op ... in that order, `count` elements each. f64 and f32 add in their own
// type, bf16 in f32 with one rounding at the end, i32 wraps; NaN stays NaN under sum and max. `out` may be
// one of the inputs.
void reduce_in_rank_order(std::byte* out, std::span<const std::byte* const> in, DType dtype,
                          std::int64_t count, Reduce op);

}  // namespace fivefold
