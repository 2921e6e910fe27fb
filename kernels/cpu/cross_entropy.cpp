// Statistics of logit rows in one pass over memory, and loss and gradient from them. All soft-max arithmetic
// in the arithmetic type: bf16 logits give the loss of the same numbers in f32.
#include <cmath>
#include <limits>
#include <tuple>

#include "kernels/cpu/accum.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {
namespace {

constexpr std::int64_t kStats = 3;  // max, sum, target logit
constexpr std::int64_t kColumnCost = 2;

template <class A>
constexpr A kNothing = -std::numeric_limits<A>::infinity();

// {maximum of x [count] and `top`, sum of exp(x - that maximum)}.
template <class A>
std::pair<A, A> block_stats(std::int64_t count, const A* x, A top) {
  A lane[kPanel];
  std::fill_n(lane, kPanel, top);
  raise_panel(count / kPanel, x, lane);
  for (std::int64_t i = count / kPanel * kPanel; i < count; ++i) lane[0] = std::max(lane[0], x[i]);
  top = *std::max_element(lane, lane + kPanel);
  const A base = top == kNothing<A> ? A(0) : top;
  return {top, lane_sum<A>(count, [=](std::int64_t i) { return exp_of(x[i] - base); })};
}

// Maximum and sum of exp(l - maximum) over a row, by blocks that stay in cache.
template <class A, class T>
std::pair<A, A> row_stats(const T* logits, std::int64_t columns) {
  constexpr std::int64_t kBlock = 1024;
  alignas(64) A x[kBlock];
  A top = kNothing<A>, sum = 0;
  for (std::int64_t begin = 0; begin < columns; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, columns - begin);
    for_each_element(0, count,
                     [&, from = logits + begin](std::int64_t i) { x[i] = static_cast<A>(from[i]); });
    const auto [now, added] = block_stats(count, x, top);
    sum = added + (top == kNothing<A> ? A(0) : sum * std::exp(top - now));
    top = now;
  }
  return {top, sum};
}

template <class T>
void vocab_stats(const VocabStats& op, const CpuContext& ctx) {
  using A = Accum<T>;
  const std::int64_t width = op.logits.dim(1);
  const T* const logits = op.logits.data<T>();
  const std::int32_t* const target = op.target.data<std::int32_t>();
  A* const stats = op.stats.data<A>();
  parallel_for(ctx, op.logits.dim(0), kColumnCost * op.columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::tie(stats[r * kStats], stats[r * kStats + 1]) = row_stats<A>(logits + r * width, op.columns);
      const std::int64_t column = target[r] - op.first_column;
      const bool here = target[r] != kNoTarget && column >= 0 && column < op.columns;
      stats[r * kStats + 2] = here ? static_cast<A>(logits[r * width + column]) : A(0);
    }
  });
}

// What the parts of a row join to.
template <class A>
struct Row {
  A top = kNothing<A>, sum = 0, target = 0;

  Row(const A* stats, std::int64_t parts, std::int64_t stride) {
    for (std::int64_t p = 0; p < parts; ++p) top = std::max(top, stats[p * stride]);
    for (std::int64_t p = 0; p < parts; ++p) {
      const A* const part = stats + p * stride;
      sum += part[1] * std::exp(part[0] - top);  // a part without columns adds 0
      target += part[2];
    }
  }
  // In f64: rows add up to the loss of a step.
  double loss() const {
    return std::log(static_cast<double>(sum)) + (static_cast<double>(top) - static_cast<double>(target));
  }
};

// logits = scale * (softmax - one hot), zero in the padding. `column` of the target, or outside [0, columns).
template <class A, class T>
void row_gradient(const Row<A>& row, A scale, std::int64_t column, std::int64_t columns, std::int64_t width,
                  T* logits) {
  const A at_target = column >= 0 && column < columns ? static_cast<A>(logits[column]) : A(0);
  const A factor = scale / row.sum;
  for_each_element(0, columns, [=, top = row.top](std::int64_t c) {
    logits[c] = static_cast<T>(factor * exp_of(static_cast<A>(logits[c]) - top));
  });
  if (column >= 0 && column < columns)
    logits[column] = static_cast<T>(factor * exp_of(at_target - row.top) - scale);
  std::fill(logits + columns, logits + width, T{});
}

template <class T>
void cross_entropy(const CrossEntropy& op, const CpuContext& ctx) {
  using A = Accum<T>;
  const std::int64_t rows = op.logits.dim(0), width = op.logits.dim(1), parts = op.stats.dim(0);
  T* const logits = op.logits.data<T>();
  const std::int32_t* const target = op.target.data<std::int32_t>();
  const A* const stats = op.stats.data<A>();
  double* const losses = ctx.scratch.get<double>(rows);
  parallel_for(ctx, rows, kColumnCost * op.columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      if (target[r] == kNoTarget) {
        losses[r] = 0;
        if (op.gradient) std::fill_n(logits + r * width, width, T{});
        continue;
      }
      const Row<A> row(stats + r * kStats, parts, rows * kStats);
      losses[r] = row.loss();
      if (op.gradient)
        row_gradient(row, static_cast<A>(op.scale), target[r] - op.first_column, op.columns, width,
                     logits + r * width);
    }
  });
  double sum = 0;
  for (std::int64_t r = 0; r < rows; ++r) sum += losses[r];
  *op.loss.data<double>() += sum;
  if (op.row_loss) std::copy_n(losses, rows, op.row_loss.data<A>());
}

}  // namespace

void execute(const VocabStats& op, const CpuContext& ctx) {
  with_float(op.logits.dtype(), [&](auto t) { vocab_stats<decltype(t)>(op, ctx); });
}

void execute(const CrossEntropy& op, const CpuContext& ctx) {
  with_float(op.logits.dtype(), [&](auto t) { cross_entropy<decltype(t)>(op, ctx); });
}

}  // namespace fivefold::cpu
