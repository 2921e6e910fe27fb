// What the two directions of the norms share: a block a row, threads take packs of it in turn.
#pragma once
#include "kernels/cuda/device.cuh"

namespace fivefold::cuda {

constexpr int kNormThreads = 256;
constexpr std::int64_t kMostNormRows = 1 << 20;  // blocks of a launch; further rows are taken in turn

// Calls f(d) for the packs of N elements of a row that are this thread's.
template <int N, class F>
__device__ __forceinline__ void packs_of_row(std::int64_t width, F&& f) {
  for (std::int64_t d = static_cast<std::int64_t>(threadIdx.x) * N; d < width;
       d += static_cast<std::int64_t>(blockDim.x) * N)
    f(d);
}

// Threads for a row of `packs` packs: whole warps.
inline unsigned row_threads(std::int64_t packs) {
  return static_cast<unsigned>(std::clamp<std::int64_t>(round_up(packs, 32), 32, kNormThreads));
}

// Calls f(T{}, W{}) with the types of the rows and of the weight.
template <class Op, class F>
void with_norm_types(const Op& op, F f) {
  with_device_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (op.weight.dtype() == op.x.dtype())
      f(T{}, T{});
    else
      f(T{}, Accum<T>{});
  });
}

}  // namespace fivefold::cuda
