// Packed rows to q, k, v (norm, then rotary, one rounding at the end) and their gradients back to packed
// rows. Gradients of the norm weights are summed over blocks of 32 rows and then block after block: the same
// for any number of threads.
#include <cmath>
#include <vector>

#include "kernels/cpu/accum.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/rotary.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {
namespace {

constexpr std::int64_t kSumRows = 32;

// Heads of q, k or v inside a packed row.
template <class T, class A>
struct Section {
  T* data;                     // [T, heads, hd]
  std::int64_t heads, offset;  // offset in the packed row, elements
  std::vector<A> weight;       // [hd], empty: no norm
  A* rstd;                     // [T, heads]
  bool turned;                 // by the rotary tables
};

// A weight in T or its arithmetic type, in the latter; empty if there is none.
template <class T>
std::vector<Accum<T>> weight_of(const Tensor& weight) {
  using A = Accum<T>;
  std::vector<A> values(weight ? static_cast<std::size_t>(weight.count()) : 0);
  if (weight && weight.dtype() == dtype_of<A>())
    std::copy_n(weight.data<A>(), values.size(), values.begin());
  else if (weight)
    std::copy_n(weight.data<T>(), values.size(), values.begin());
  return values;
}
template <class T>
Section<T, Accum<T>> section_of(const Tensor& data, std::int64_t offset, const Tensor& weight,
                                const Tensor& rstd, bool turned) {
  using A = Accum<T>;
  return {data.data<T>(), data.dim(1), offset, weight_of<T>(weight), rstd ? rstd.data<A>() : nullptr, turned};
}
// Op is the forward or the backward op; q, k, v are its tensors of that shape.
template <class T, class Op>
std::array<Section<T, Accum<T>>, 3> sections_of(const Op& op, const Tensor& q, const Tensor& k,
                                                const Tensor& v) {
  const std::int64_t dim = q.dim(2);
  return {section_of<T>(q, 0, op.q_weight, op.q_rstd, true),
          section_of<T>(k, q.dim(1) * dim, op.k_weight, op.k_rstd, true),
          section_of<T>(v, (q.dim(1) + k.dim(1)) * dim, {}, {}, false)};
}

template <class T>
void forward(const SplitQkvForward& op, const CpuContext& ctx) {
  using A = Accum<T>;
  const std::int64_t dim = op.q.dim(2), width = op.packed.dim(1);
  const RotaryTable<A> table(op.position, op.cos, op.sin, op.style);
  const auto sections = sections_of<T>(op, op.q, op.k, op.v);
  const T* const packed = op.packed.data<T>();
  const A eps = static_cast<A>(op.eps);

  const auto split_head = [&](const Section<T, A>& section, std::int64_t t, std::int64_t h, A* head) {
    const T* const from = packed + t * width + section.offset + h * dim;
    for_each_element(0, dim, [=](std::int64_t i) { head[i] = static_cast<A>(from[i]); });
    if (!section.weight.empty()) {
      const A squares = lane_sum<A>(dim, [=](std::int64_t i) { return head[i] * head[i]; });
      const A rstd = A(1) / std::sqrt(squares / static_cast<A>(dim) + eps);
      section.rstd[t * section.heads + h] = rstd;
      for_each_element(0, dim, [=, w = section.weight.data()](std::int64_t i) { head[i] *= rstd * w[i]; });
    }
    if (section.turned) table.turn(t, A(1), head);
    T* const to = section.data + (t * section.heads + h) * dim;
    for_each_element(0, dim, [=](std::int64_t i) { to[i] = static_cast<T>(head[i]); });
  };

  parallel_for(ctx, op.packed.dim(0), 2 * width, [&](std::int64_t begin, std::int64_t end) {
    std::vector<A> head(static_cast<std::size_t>(dim));
    for (std::int64_t t = begin; t < end; ++t)
      for (const auto& section : sections)
        for (std::int64_t h = 0; h < section.heads; ++h) split_head(section, t, h, head.data());
  });
}

// g [hd]: gradient of a normed head -> gradient of its input x. Adds to the weight's gradient.
// With n = x rstd: dx = rstd (g w - n mean(g w n)).
template <class T, class A>
void norm_backward(std::int64_t dim, const T* x, const A* w, A rstd, A* g, A* d_weight) {
  const auto normal = [=](std::int64_t i) { return static_cast<A>(x[i]) * rstd; };
  for_each_element(0, dim, [=](std::int64_t i) {
    d_weight[i] += g[i] * normal(i);
    g[i] *= w[i];
  });
  const A along = lane_sum<A>(dim, [=](std::int64_t i) { return g[i] * normal(i); }) / static_cast<A>(dim);
  for_each_element(0, dim, [=](std::int64_t i) { g[i] = rstd * (g[i] - normal(i) * along); });
}

template <class T>
void backward(const SplitQkvBackward& op, const CpuContext& ctx) {
  using A = Accum<T>;
  const std::int64_t rows = op.d_packed.dim(0), width = op.d_packed.dim(1), dim = op.dq.dim(2);
  const std::int64_t blocks = ceil_div(rows, kSumRows);
  const RotaryTable<A> table(op.position, op.cos, op.sin, op.style);
  const auto sections = sections_of<T>(op, op.dq, op.dk, op.dv);
  const T* const packed = op.packed ? op.packed.data<T>() : nullptr;
  T* const d_packed = op.d_packed.data<T>();
  A* const partial = ctx.scratch.get<A>(blocks * 2 * dim);  // per block: of q_weight, of k_weight

  const auto pack_head = [&](const Section<T, A>& section, std::int64_t t, std::int64_t h, A* d_weight,
                             A* head) {
    const T* const from = section.data + (t * section.heads + h) * dim;
    const std::int64_t at = t * width + section.offset + h * dim;
    for_each_element(0, dim, [=](std::int64_t i) { head[i] = static_cast<A>(from[i]); });
    if (section.turned) table.turn(t, A(-1), head);
    if (!section.weight.empty())
      norm_backward(dim, packed + at, section.weight.data(), section.rstd[t * section.heads + h], head,
                    d_weight);
    for_each_element(0, dim, [=, to = d_packed + at](std::int64_t i) { to[i] = static_cast<T>(head[i]); });
  };

  parallel_for(ctx, blocks, 2 * kSumRows * width, [&](std::int64_t begin, std::int64_t end) {
    std::vector<A> head(static_cast<std::size_t>(dim));
    for (std::int64_t block = begin; block < end; ++block) {
      A* const sums = partial + block * 2 * dim;
      std::fill_n(sums, 2 * dim, A(0));
      for (std::int64_t t = block * kSumRows; t < std::min(rows, (block + 1) * kSumRows); ++t)
        for (const auto& section : sections)
          for (std::int64_t h = 0; h < section.heads; ++h)
            pack_head(section, t, h, &section == &sections[0] ? sums : sums + dim, head.data());
    }
  });
  if (!op.q_weight) return;
  A *const d_q = op.d_q_weight.data<A>(), *const d_k = op.d_k_weight.data<A>();
  for (std::int64_t block = 0; block < blocks; ++block)
    for_each_element(0, dim, [=, sums = partial + block * 2 * dim](std::int64_t i) {
      d_q[i] += sums[i];
      d_k[i] += sums[dim + i];
    });
}

}  // namespace

void execute(const SplitQkvForward& op, const CpuContext& ctx) {
  with_float(op.packed.dtype(), [&](auto t) { forward<decltype(t)>(op, ctx); });
}

void execute(const SplitQkvBackward& op, const CpuContext& ctx) {
  with_float(op.dq.dtype(), [&](auto t) { backward<decltype(t)>(op, ctx); });
}

}  // namespace fivefold::cpu
