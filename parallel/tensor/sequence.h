// The two moves between rows cut over tp ([T/tp, D], between layers) and whole rows ([T, D], inside column
// and row linears). Each is the other's backward pass. With tp = 1 both return their argument.
#pragma once
#include "parallel/run.h"

namespace fivefold {

// [T/tp, ...] -> [T, ...]: the tp ranks' rows one after another.
Tensor gather_rows(const Run& run, const Tensor& x);
// [T, ...] partial sums -> [T/tp, ...]: this rank's rows of the sum over tp.
Tensor reduce_scatter_rows(const Run& run, const Tensor& x);
// This rank's rows of a tensor that every tp rank holds whole.
Tensor own_rows(const Run& run, const Tensor& x);

}  // namespace fivefold
