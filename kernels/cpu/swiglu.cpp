// SwiGLU and its gradient, row by row.
#include "kernels/cpu/accum.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {

namespace {

template <class T>
void forward_row(const T* gate, const T* up, T* y, std::int64_t width) {
  using A = Accum<T>;
  for_each_element(0, width, [=](std::int64_t f) {
    const A g = static_cast<A>(gate[f]);
    y[f] = static_cast<T>(g * sigmoid_of(g) * static_cast<A>(up[f]));
  });
}

template <class T>
void backward_row(const T* gate, const T* up, const T* dy, T* d_gate, T* d_up, std::int64_t width) {
  using A = Accum<T>;
  for_each_element(0, width, [=](std::int64_t f) {
    const A g = static_cast<A>(gate[f]), u = static_cast<A>(up[f]), d = static_cast<A>(dy[f]);
    const auto s = sigmoid_slope_of(g);
    d_gate[f] = static_cast<T>(d * u * (s.value + g * s.slope));
    d_up[f] = static_cast<T>(d * g * s.value);
  });
}

}  // namespace

void execute(const SwigluForward& op, const CpuContext& ctx) {
  with_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* x = op.x.data<T>();
    T* y = op.y.data<T>();
    const auto width = op.y.dim(1);
    parallel_for(ctx, op.y.dim(0), 2 * width, [=](std::int64_t begin, std::int64_t end) {
      for (auto t = begin; t < end; ++t)
        forward_row(x + 2 * t * width, x + (2 * t + 1) * width, y + t * width, width);
    });
  });
}

void execute(const SwigluBackward& op, const CpuContext& ctx) {
  with_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *x = op.x.data<T>(), *dy = op.dy.data<T>();
    T* dx = op.dx.data<T>();
    const auto width = op.dy.dim(1);
    parallel_for(ctx, op.dy.dim(0), 3 * width, [=](std::int64_t begin, std::int64_t end) {
      for (auto t = begin; t < end; ++t) {
        const auto gate = 2 * t * width, up = gate + width;
        backward_row(x + gate, x + up, dy + t * width, dx + gate, dx + up, width);
      }
    });
  });
}

}  // namespace fivefold::cpu
