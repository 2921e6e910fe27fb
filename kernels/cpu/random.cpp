// Random numbers by place, so that threads share the work as they like.
#include "core/philox.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/parallel_for.h"

namespace fivefold::cpu {

namespace {

constexpr std::int64_t kCost = 64;  // of a logarithm and a cosine, in elements of plain work

template <class T>
T rounded(double value) {
  if constexpr (std::is_same_v<T, bf16>)
    return bf16(static_cast<float>(value));  // by way of f32
  else
    return static_cast<T>(value);
}

}  // namespace

void execute(const RandomNormal& op, const CpuContext& ctx) {
  with_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* x = op.x.data<T>();
    const auto columns = op.x.dim(1);
    parallel_for(ctx, op.x.count(), kCost, [&op, x, columns](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) {
        const auto place = op.first + i / columns * op.stride + i % columns;
        x[i] = rounded<T>(op.mean +
                          op.spread * philox_normal(op.seed, op.sequence, static_cast<std::uint64_t>(place)));
      }
    });
  });
}

}  // namespace fivefold::cpu
