// What the strategies share: the operands of attention as one value, and the local ops on them.
#pragma once
#include "parallel/run.h"

namespace fivefold {

// The rows of a micro-batch as attention sees them: their mask (kernels/ops/attention.h).
struct AttentionRows {
  Tensor q_index, first_visible;  // [T] i32
  Tensor k_index;                 // [Tk] i32
  std::int64_t sequence = 0;      // rows of each sequence on this rank; 0: unknown
  double visible_pairs = 0;       // (query, key) pairs that these rows see, for counts of FLOPs
};

// Operands and results of attention that its backward needs.
struct AttentionState {
  Tensor q;     // [T, Hq, hd]
  Tensor k, v;  // [Tk, Hk, hd], [Tk, Hk, vd]
  AttentionRows rows;
  Tensor out, lse;  // [T, Hq, vd], [T, Hq]
};

struct AttentionGradients {
  Tensor q, k, v;  // shapes of q, k, v
};

// Allocates and computes state.out in `out_dtype` (the dtype of q or its accumulate dtype) and state.lse.
void attend(const Run& run, double scale, DType out_dtype, AttentionState& state);

// Gradients by the keys of `state`; `state.out` and `state.lse` are those over all keys. dk and dv, or all
// three, in the accumulate dtype where they are parts of sums.
struct GradientDTypes {
  DType q, kv;
};
AttentionGradients attend_backward(const Run& run, double scale, const GradientDTypes& dtypes,
                                   const Tensor& d_out, const AttentionState& state);

// t in the activations' dtype: rounded once, or itself where it has that dtype already.
Tensor rounded(const Run& run, const Tensor& t);

void wait_all(std::vector<Work>& works, const Run& run);

}  // namespace fivefold
