// Rotary embedding of whole heads.
#include "kernels/cpu/rotary.h"

#include <vector>

#include "kernels/cpu/accum.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {
namespace {

template <class T>
void rotate(const Rotary& op, const CpuContext& ctx) {
  using A = Accum<T>;
  const std::int64_t heads = op.x.dim(1), dim = op.x.dim(2);
  const RotaryTable<A> table(op.position, op.cos, op.sin, op.style);
  const A direction = op.inverse ? A(-1) : A(1);
  const T* const x = op.x.data<T>();
  T* const y = op.y.data<T>();
  parallel_for(ctx, op.x.dim(0), heads * dim, [&](std::int64_t begin, std::int64_t end) {
    std::vector<A> buffer(static_cast<std::size_t>(dim));
    A* const head = buffer.data();
    for (std::int64_t row = begin * heads; row < end * heads; ++row) {
      for_each_element(0, dim,
                       [=, from = x + row * dim](std::int64_t i) { head[i] = static_cast<A>(from[i]); });
      table.turn(row / heads, direction, head);
      for_each_element(0, dim, [=, to = y + row * dim](std::int64_t i) { to[i] = static_cast<T>(head[i]); });
    }
  });
}

}  // namespace

void execute(const Rotary& op, const CpuContext& ctx) {
  with_float(op.x.dtype(), [&](auto t) { rotate<decltype(t)>(op, ctx); });
}

}  // namespace fivefold::cpu
