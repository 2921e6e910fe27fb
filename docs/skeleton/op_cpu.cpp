// ScaleRows on the CPU. Its declaration stands in kernels/cpu/execute.h beside those of the other ops.
#include "docs/skeleton/op.h"
#include "kernels/cpu/accum.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {

void execute(const ScaleRows& op, const CpuContext& ctx);

void execute(const ScaleRows& op, const CpuContext& ctx) {
  with_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accum<T>;
    const T* x = op.x.data<T>();
    T* y = op.y.data<T>();
    const A factor = static_cast<A>(op.factor);
    parallel_for(ctx, op.x.count(), 1, [=](std::int64_t begin, std::int64_t end) {
      for_each_element(begin, end,
                       [=](std::int64_t i) { y[i] = static_cast<T>(factor * static_cast<A>(x[i])); });
    });
  });
}

}  // namespace fivefold::cpu
