// Joins two partial attention results in max form: no exponential of a positive number, so no overflow.
#include <cmath>
#include <limits>

#include "kernels/cpu/accum.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {
namespace {

template <class T>
void merge(const AttentionMerge& op, const CpuContext& ctx) {
  using A = Accum<T>;
  const std::int64_t dim = op.out.dim(2);
  A *const out = op.out.data<A>(), *const lse = op.lse.data<A>();
  const T* const other_out = op.other_out.data<T>();
  const A* const other_lse = op.other_lse.data<A>();
  parallel_for(ctx, op.out.dim(0) * op.out.dim(1), 40 + dim, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (other_lse[row] == -std::numeric_limits<A>::infinity()) continue;  // saw nothing
      const A top = std::max(lse[row], other_lse[row]);
      const A mine = std::exp(lse[row] - top), others = std::exp(other_lse[row] - top), sum = mine + others;
      const A keep = mine / sum, add = others / sum;
      for_each_element(row * dim, (row + 1) * dim,
                       [=](std::int64_t i) { out[i] = keep * out[i] + add * static_cast<A>(other_out[i]); });
      lse[row] = top + std::log(sum);
    }
  });
}

}  // namespace

void execute(const AttentionMerge& op, const CpuContext& ctx) {
  with_float(op.other_out.dtype(), [&](auto t) { merge<decltype(t)>(op, ctx); });
}

}  // namespace fivefold::cpu
