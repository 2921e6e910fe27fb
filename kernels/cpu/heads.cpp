// Moves heads between rows and parts.
#include "kernels/cpu/accum.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {
namespace {

// Where things lie: `place` counts the P n heads of all parts.
struct HeadParts {
  std::int64_t rows, heads, width, of_part, repeats;

  HeadParts(const Tensor& rows_tensor, const Tensor& parts)
      : rows(rows_tensor.dim(0)),
        heads(rows_tensor.dim(1)),
        width(rows_tensor.dim(2)),
        of_part(parts.dim(2)),
        repeats(parts.dim(0) * of_part / heads) {}
  std::int64_t row_at(std::int64_t row, std::int64_t head) const { return (row * heads + head) * width; }
  std::int64_t part_at(std::int64_t row, std::int64_t place) const {
    return ((place / of_part * rows + row) * of_part + place % of_part) * width;
  }
};

// Calls f(row, head) for all, by threads.
template <class F>
void for_each_head(const HeadParts& p, const CpuContext& ctx, F&& f) {
  parallel_for(ctx, p.rows * p.heads, p.width * p.repeats, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i / p.heads, i % p.heads);
  });
}

template <class T>
void to_parts(const HeadsToParts& op, const CpuContext& ctx) {
  const HeadParts p(op.rows, op.parts);
  const T* const rows = op.rows.data<T>();
  T* const parts = op.parts.data<T>();
  for_each_head(p, ctx, [&](std::int64_t row, std::int64_t head) {
    for (std::int64_t i = 0; i < p.repeats; ++i)
      std::copy_n(rows + p.row_at(row, head), p.width, parts + p.part_at(row, head * p.repeats + i));
  });
}

// From: the type of the parts, T or its arithmetic type.
template <class T, class From>
void to_heads(const PartsToHeads& op, const CpuContext& ctx) {
  using A = Accum<T>;
  const HeadParts p(op.rows, op.parts);
  T* const rows = op.rows.data<T>();
  const From* const parts = op.parts.data<From>();
  for_each_head(p, ctx, [&](std::int64_t row, std::int64_t head) {
    T* const to = rows + p.row_at(row, head);
    for (std::int64_t c = 0; c < p.width; ++c) {
      A sum = 0;
      for (std::int64_t i = 0; i < p.repeats; ++i)
        sum += static_cast<A>(parts[p.part_at(row, head * p.repeats + i) + c]);
      to[c] = static_cast<T>(sum);
    }
  });
}

}  // namespace

void execute(const HeadsToParts& op, const CpuContext& ctx) {
  with_float(op.rows.dtype(), [&](auto t) { to_parts<decltype(t)>(op, ctx); });
}

void execute(const PartsToHeads& op, const CpuContext& ctx) {
  with_float(op.rows.dtype(), [&](auto t) {
    using T = decltype(t);
    if (op.parts.dtype() == dtype_of<T>())
      to_heads<T, T>(op, ctx);
    else
      to_heads<T, Accum<T>>(op, ctx);
  });
}

}  // namespace fivefold::cpu
