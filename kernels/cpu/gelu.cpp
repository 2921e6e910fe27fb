// GELU in its tanh form and the gradient. 0.5 (1 + tanh u) is computed as sigmoid(2 u), which keeps its
// relative accuracy where it is small.
#include <numbers>

#include "kernels/cpu/accum.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {

namespace {

// 2 u = 2 sqrt(2/pi) (x + 0.044715 x^3)
template <class A>
constexpr A kTwoRoot = static_cast<A>(2.0 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
template <class A>
constexpr A kCube = static_cast<A>(0.044715);

template <class A>
A gelu(A x) {
  return x * sigmoid_of(kTwoRoot<A> * (x + kCube<A> * x * x * x));
}

template <class A>
A gelu_slope(A x) {
  const auto s = sigmoid_slope_of(kTwoRoot<A> * (x + kCube<A> * x * x * x));
  return s.value + x * s.slope * kTwoRoot<A> * (1 + 3 * kCube<A> * x * x);
}

}  // namespace

void execute(const GeluForward& op, const CpuContext& ctx) {
  with_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* x = op.x.data<T>();
    T* y = op.y.data<T>();
    parallel_for(ctx, op.x.count(), 2, [=](std::int64_t begin, std::int64_t end) {
      for_each_element(begin, end,
                       [=](std::int64_t i) { y[i] = static_cast<T>(gelu(static_cast<Accum<T>>(x[i]))); });
    });
  });
}

void execute(const GeluBackward& op, const CpuContext& ctx) {
  with_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accum<T>;
    const T *x = op.x.data<T>(), *dy = op.dy.data<T>();
    T* dx = op.dx.data<T>();
    parallel_for(ctx, op.x.count(), 2, [=](std::int64_t begin, std::int64_t end) {
      for_each_element(begin, end, [=](std::int64_t i) {
        dx[i] = static_cast<T>(static_cast<A>(dy[i]) * gelu_slope(static_cast<A>(x[i])));
      });
    });
  });
}

}  // namespace fivefold::cpu
