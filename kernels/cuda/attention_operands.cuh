// What the forms of attention by tensor cores share of the ops' operands.
#pragma once
#include "kernels/cuda/device.cuh"
#include "kernels/ops/attention.h"

namespace fivefold::cuda {

// The indices of a mask and how many of each there are.
struct MaskIndices {
  const std::int32_t *q_index, *first_visible, *k_index;
  int queries, keys;

  // Keys that query i sees; none beyond the last.
  __device__ __forceinline__ void window_of(int i, std::int32_t& first, std::int32_t& last) const {
    first = i < queries ? first_visible[i] : INT32_MAX;
    last = i < queries ? q_index[i] : INT32_MIN;
  }
};

template <class Op>
MaskIndices mask_indices(const Op& op) {
  return {elements<std::int32_t>(op.q_index), elements<std::int32_t>(op.first_visible),
          elements<std::int32_t>(op.k_index), static_cast<int>(op.q.dim(0)), static_cast<int>(op.k.dim(0))};
}

// True where tensor cores may take the operands, head widths aside: bf16, something to do, counts that fit, a
// scale that keeps the order of scores, whole packs of 16 bytes.
template <class Op>
bool tensor_cores_take(const Op& op) {
  constexpr std::int64_t kMost = INT32_MAX / 2;
  return op.q.dtype() == DType::bf16 && op.q.count() > 0 && op.k.count() > 0 && op.q.dim(0) < kMost &&
         op.k.dim(0) < kMost && op.scale > 0 &&
         packs_aligned({op.q.raw(), op.k.raw(), op.v.raw(), op.out.raw()});
}

}  // namespace fivefold::cuda
