// RMSNorm and LayerNorm: one pass a row forward, one pass a row backward. Weight gradients are summed in
// blocks of rows of a fixed size and then block after block, so they do not depend on the number of threads.
#include "kernels/cpu/accum.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {

namespace {

constexpr std::int64_t kBlockRows = 32;

template <class T>
T* data_or_null(const Tensor& t) {
  return t ? t.data<T>() : nullptr;
}

template <class T, class W>
struct Forward {
  using A = Accum<T>;
  const T *x, *delta;
  T* sum;
  const W *weight, *bias;
  T* y;
  A *mean, *rstd;
  A eps;
  std::int64_t width;

  void row(std::int64_t t) const {
    const T* in = x + t * width;
    if (delta) in = add_delta(in, t);
    const A inverse = A(1) / static_cast<A>(width);
    const A center =
        mean ? lane_sum<A>(width, [=](std::int64_t d) { return static_cast<A>(in[d]); }) * inverse : A(0);
    const A squares = lane_sum<A>(width, [=](std::int64_t d) {
      const A v = static_cast<A>(in[d]) - center;
      return v * v;
    });
    const A scale = A(1) / std::sqrt(squares * inverse + eps);
    rstd[t] = scale;
    if (mean) mean[t] = center;
    T* out = y + t * width;
    if (bias)
      for_each_element(0, width, [=, w = weight, b = bias](std::int64_t d) {
        out[d] = static_cast<T>((static_cast<A>(in[d]) - center) * scale * static_cast<A>(w[d]) +
                                static_cast<A>(b[d]));
      });
    else
      for_each_element(0, width, [=, w = weight](std::int64_t d) {
        out[d] = static_cast<T>(static_cast<A>(in[d]) * scale * static_cast<A>(w[d]));
      });
  }

  const T* add_delta(const T* in, std::int64_t t) const {
    const T* change = delta + t * width;
    T* out = sum + t * width;
    for_each_element(0, width, [=](std::int64_t d) {
      out[d] = static_cast<T>(static_cast<A>(in[d]) + static_cast<A>(change[d]));
    });
    return out;
  }
};

template <class T, class W>
struct Backward {
  using A = Accum<T>;
  const T* x;
  const W* weight;
  const A *mean, *rstd;
  const T *dy, *residual;
  T* dx;
  std::int64_t width;

  // With n = (x - mean) rstd and g = dy weight: dx = rstd (g - n mean(g n) [- mean(g) when centred]) +
  // residual. Adds dy n to d_weight and dy to d_bias.
  void row(std::int64_t t, A* d_weight, A* d_bias) const {
    const T *in = x + t * width, *grad = dy + t * width;
    const W* w = weight;
    const A scale = rstd[t], center = mean ? mean[t] : A(0), inverse = A(1) / static_cast<A>(width);
    const auto normal = [=](std::int64_t d) { return (static_cast<A>(in[d]) - center) * scale; };
    const A along = inverse * lane_sum<A>(width, [=](std::int64_t d) {
                      return static_cast<A>(grad[d]) * static_cast<A>(w[d]) * normal(d);
                    });
    const A average = d_bias ? inverse * lane_sum<A>(width,
                                                     [=](std::int64_t d) {
                                                       return static_cast<A>(grad[d]) * static_cast<A>(w[d]);
                                                     })
                             : A(0);
    for_each_element(0, width, [=](std::int64_t d) { d_weight[d] += static_cast<A>(grad[d]) * normal(d); });
    if (d_bias) for_each_element(0, width, [=](std::int64_t d) { d_bias[d] += static_cast<A>(grad[d]); });
    const auto slope = [=](std::int64_t d) {
      return scale * (static_cast<A>(grad[d]) * static_cast<A>(w[d]) - normal(d) * along - average);
    };
    T* out = dx + t * width;
    if (residual)
      for_each_element(0, width, [=, around = residual + t * width](std::int64_t d) {
        out[d] = static_cast<T>(static_cast<A>(around[d]) + slope(d));
      });
    else
      for_each_element(0, width, [=](std::int64_t d) { out[d] = static_cast<T>(slope(d)); });
  }
};

// total[d] += partial[b, d] over the blocks b in order.
template <class A>
void add_blocks(const CpuContext& ctx, const A* partial, std::int64_t blocks, std::int64_t stride,
                std::int64_t width, A* total) {
  parallel_for(ctx, width, blocks, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = 0; b < blocks; ++b)
      for_each_element(begin, end, [=](std::int64_t d) { total[d] += partial[b * stride + d]; });
  });
}

template <class T, class W>
void forward(const NormForward& op, const CpuContext& ctx) {
  using A = Accum<T>;
  const Forward<T, W> norm{.x = op.x.data<T>(),
                           .delta = data_or_null<T>(op.delta),
                           .sum = data_or_null<T>(op.sum),
                           .weight = op.weight.data<W>(),
                           .bias = data_or_null<W>(op.bias),
                           .y = op.y.data<T>(),
                           .mean = data_or_null<A>(op.mean),
                           .rstd = op.rstd.data<A>(),
                           .eps = static_cast<A>(op.eps),
                           .width = op.x.dim(1)};
  parallel_for(ctx, op.x.dim(0), 2 * norm.width, [&](std::int64_t begin, std::int64_t end) {
    for (auto t = begin; t < end; ++t) norm.row(t);
  });
}

template <class T, class W>
void backward(const NormBackward& op, const CpuContext& ctx) {
  using A = Accum<T>;
  const auto rows = op.x.dim(0), width = op.x.dim(1), blocks = ceil_div(rows, kBlockRows);
  const Backward<T, W> norm{.x = op.x.data<T>(),
                            .weight = op.weight.data<W>(),
                            .mean = data_or_null<A>(op.mean),
                            .rstd = op.rstd.data<A>(),
                            .dy = op.dy.data<T>(),
                            .residual = data_or_null<T>(op.residual),
                            .dx = op.dx.data<T>(),
                            .width = width};
  const std::int64_t stride = op.layer ? 2 * width : width;
  A* partial = ctx.scratch.get<A>(blocks * stride);
  parallel_for(ctx, blocks, 3 * kBlockRows * width,
               [=, layer = op.layer](std::int64_t begin, std::int64_t end) {
                 for (auto b = begin; b < end; ++b) {
                   A* sums = partial + b * stride;
                   std::fill(sums, sums + stride, A(0));
                   for (auto t = b * kBlockRows; t < std::min(rows, (b + 1) * kBlockRows); ++t)
                     norm.row(t, sums, layer ? sums + width : nullptr);
                 }
               });
  add_blocks(ctx, partial, blocks, stride, width, op.d_weight.data<A>());
  if (op.layer) add_blocks(ctx, partial + width, blocks, stride, width, op.d_bias.data<A>());
}

// Calls f(T{}, W{}) with the types of the rows and of the weight.
template <class Op, class F>
void with_types(const Op& op, F f) {
  with_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (op.weight.dtype() == op.x.dtype())
      f(T{}, T{});
    else
      f(T{}, Accum<T>{});
  });
}

}  // namespace

void execute(const NormForward& op, const CpuContext& ctx) {
  with_types(op, [&](auto t, auto w) { forward<decltype(t), decltype(w)>(op, ctx); });
}

void execute(const NormBackward& op, const CpuContext& ctx) {
  with_types(op, [&](auto t, auto w) { backward<decltype(t), decltype(w)>(op, ctx); });
}

}  // namespace fivefold::cpu
