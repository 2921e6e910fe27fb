// Rows of the table by token, and their gradients. Backward is cut by columns: each thread adds all tokens in
// order, so equal tokens need no atomics and the sums do not depend on the number of threads.
#include "kernels/cpu/accum.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {
namespace {

// Calls f(t, local row) for the tokens whose row is here, g(t) for the others.
template <class F, class G>
void for_each_token(const Tensor& ids, std::int64_t begin, std::int64_t end, std::int64_t first_row,
                    std::int64_t rows, F&& f, G&& g) {
  const std::int32_t* const id = ids.data<std::int32_t>();
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t row = id[t] - first_row;
    if (row >= 0 && row < rows)
      f(t, row);
    else
      g(t);
  }
}

template <class T>
void forward(const EmbeddingForward& op, const CpuContext& ctx) {
  using A = Accum<T>;
  const std::int64_t width = op.table.dim(1);
  const T* const table = op.table.data<T>();
  T* const y = op.y.data<T>();
  const auto copy = [=](std::int64_t t, std::int64_t row) {
    std::copy_n(table + row * width, width, y + t * width);
  };
  const auto add = [=](std::int64_t t, std::int64_t row) {
    const T* const from = table + row * width;
    T* const to = y + t * width;
    for_each_element(0, width, [=](std::int64_t d) {
      to[d] = static_cast<T>(static_cast<A>(to[d]) + static_cast<A>(from[d]));
    });
  };
  const auto clear = [=](std::int64_t t) { std::fill_n(y + t * width, width, T{}); };
  parallel_for(ctx, op.ids.dim(0), width, [&](std::int64_t begin, std::int64_t end) {
    if (op.accumulate)
      for_each_token(op.ids, begin, end, op.first_row, op.table.dim(0), add, [](std::int64_t) {});
    else
      for_each_token(op.ids, begin, end, op.first_row, op.table.dim(0), copy, clear);
  });
}

template <class T>
void backward(const EmbeddingBackward& op, const CpuContext& ctx) {
  using A = Accum<T>;
  constexpr std::int64_t kColumns = 16;  // a cache line of floats
  const std::int64_t width = op.dy.dim(1), tokens = op.ids.dim(0);
  const T* const dy = op.dy.data<T>();
  A* const table = op.d_table.data<A>();
  parallel_for(ctx, ceil_div(width, kColumns), tokens * kColumns, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * kColumns, last = std::min(end * kColumns, width);
    const auto add = [=](std::int64_t t, std::int64_t row) {
      const T* const from = dy + t * width;
      A* const to = table + row * width;
      for_each_element(first, last, [=](std::int64_t d) { to[d] += static_cast<A>(from[d]); });
    };
    for_each_token(op.ids, 0, tokens, op.first_row, op.d_table.dim(0), add, [](std::int64_t) {});
  });
}

}  // namespace

void execute(const EmbeddingForward& op, const CpuContext& ctx) {
  with_float(op.table.dtype(), [&](auto t) { forward<decltype(t)>(op, ctx); });
}

void execute(const EmbeddingBackward& op, const CpuContext& ctx) {
  with_float(op.dy.dtype(), [&](auto t) { backward<decltype(t)>(op, ctx); });
}

}  // namespace fivefold::cpu
