// One head in a warp's share of shared memory: the turn by the rotary tables.
#pragma once
#include "kernels/cuda/device.cuh"
#include "kernels/ops/attention.h"

namespace fivefold::cuda {

// cos and sin of the positions of a call. Without positions it turns nothing.
template <class A>
struct RotaryTable {
  const std::int32_t* position = nullptr;
  const A *cos = nullptr, *sin = nullptr;
  std::int64_t half = 0;
  bool interleaved = false;

  RotaryTable(const Tensor& positions, const Tensor& cosines, const Tensor& sines, RopeStyle style)
      : position(elements<std::int32_t>(positions)),
        cos(elements<A>(cosines)),
        sin(elements<A>(sines)),
        half(positions ? cosines.dim(1) : 0),
        interleaved(style == RopeStyle::interleaved) {}

  // Turns the head x [hd] of row t in place, by a warp; `direction` -1 turns back. Ends with the warp in
  // step.
  __device__ void turn(std::int64_t t, A direction, A* x) const {
    if (half == 0) return;
    const std::int64_t at = position[t] * half;
    for (std::int64_t i = threadIdx.x % 32; i < half; i += 32) {
      const std::int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + half;
      const A a = x[first], b = x[second], c = cos[at + i], s = direction * sin[at + i];
      x[first] = a * c - b * s;
      x[second] = b * c + a * s;
    }
    __syncwarp();
  }
};

// Calls f(i) for the elements of a head that are this lane's.
template <class F>
__device__ __forceinline__ void elements_of_head(std::int64_t dim, F&& f) {
  for (std::int64_t i = threadIdx.x % 32; i < dim; i += 32) f(i);
}

// Warps of a block such that `bytes` of shared memory for each fit without asking for more than a block has.
inline int warps_with(std::int64_t bytes) {
  constexpr std::int64_t kShared = 48 << 10;
  const auto warps = std::min<std::int64_t>(8, kShared / std::max<std::int64_t>(bytes, 1));
  FF_CHECK(warps >= 1, "a head needs ", bytes, " bytes of shared memory, a block has ", kShared);
  return static_cast<int>(warps);
}

}  // namespace fivefold::cuda
