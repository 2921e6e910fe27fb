// Random numbers by place, an element a thread. Compiled with --expt-relaxed-constexpr: the generator is the
// host's.
#include "core/philox.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/execute.cuh"

namespace fivefold::cuda {

namespace {

__device__ double normal(std::uint64_t seed, std::uint64_t sequence, std::uint64_t i) {
  const auto block = philox(seed, i / 2, sequence);
  const double radius = sqrt(-2.0 * log(unit_uniform(block[0])));
  const double turns = 2.0 * unit_uniform(block[1]);
  return radius * (i % 2 == 0 ? cospi(turns) : sinpi(turns));
}

template <class T>
struct NormalElements {
  T* x;
  std::uint64_t seed, sequence;
  std::int64_t first, stride, columns;
  double mean, spread;

  template <int N>
  __device__ void run(std::int64_t i) const {
    static_assert(N == 1);
    const auto place = first + i / columns * stride + i % columns;
    const double value = mean + spread * normal(seed, sequence, static_cast<std::uint64_t>(place));
    if constexpr (std::is_same_v<T, double>)
      x[i] = value;
    else
      x[i] = narrow<T>(static_cast<float>(value));
  }
};

}  // namespace

void execute(const RandomNormal& op, const CudaContext& ctx) {
  with_device_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const NormalElements<T> f{elements<T>(op.x), op.seed,     op.sequence, op.first,
                              op.stride,         op.x.dim(1), op.mean,     op.spread};
    for_each<1>(op.x.count(), false, f, ctx);
  });
}

}  // namespace fivefold::cuda
