// SwiGLU, GELU in its tanh form, and their gradients. 0.5 (1 + tanh u) is computed as sigmoid(2 u), which
// keeps its relative accuracy where it is small.
#include <numbers>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/execute.cuh"

namespace fivefold::cuda {

namespace {

// The sigmoid s and its slope s (1 - s), which loses no digits where s is near 1.
template <class A>
struct SigmoidSlope {
  A value, slope;
};
template <class A>
__device__ SigmoidSlope<A> sigmoid_slope_of(A x) {
  const A e = exp_of(x < A(0) ? x : -x), larger = A(1) / (A(1) + e), smaller = e * larger;
  return {x < A(0) ? smaller : larger, larger * smaller};
}
template <class A>
__device__ A sigmoid_of(A x) {
  return A(1) / (A(1) + exp_of(-x));
}

// 2 u = 2 sqrt(2/pi) (x + 0.044715 x^3)
template <class A>
constexpr A kTwoRoot = static_cast<A>(2.0 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
template <class A>
constexpr A kCube = static_cast<A>(0.044715);

// Element i of y is in row i / width; packs do not cross rows.
template <class T>
struct SwigluForwardElements {
  using A = Accum<T>;
  const T* x;
  T* y;
  std::int64_t width;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const std::int64_t at = i + i / width * width;
    const auto gate = load<N>(x + at), up = load<N>(x + at + width);
    Pack<T, N> out;
#pragma unroll
    for (int l = 0; l < N; ++l) {
      const A g = widen<A>(gate.at[l]);
      out.at[l] = narrow<T>(g * sigmoid_of(g) * widen<A>(up.at[l]));
    }
    store(y + i, out);
  }
};

template <class T>
struct SwigluBackwardElements {
  using A = Accum<T>;
  const T *x, *dy;
  T* dx;
  std::int64_t width;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const std::int64_t at = i + i / width * width;
    const auto gate = load<N>(x + at), up = load<N>(x + at + width), d_out = load<N>(dy + i);
    Pack<T, N> d_gate, d_up;
#pragma unroll
    for (int l = 0; l < N; ++l) {
      const A g = widen<A>(gate.at[l]), u = widen<A>(up.at[l]), d = widen<A>(d_out.at[l]);
      const auto s = sigmoid_slope_of(g);
      d_gate.at[l] = narrow<T>(d * u * (s.value + g * s.slope));
      d_up.at[l] = narrow<T>(d * g * s.value);
    }
    store(dx + at, d_gate);
    store(dx + at + width, d_up);
  }
};

template <class T>
struct GeluForwardElements {
  using A = Accum<T>;
  const T* x;
  T* y;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const auto in = load<N>(x + i);
    Pack<T, N> out;
#pragma unroll
    for (int l = 0; l < N; ++l) {
      const A v = widen<A>(in.at[l]);
      out.at[l] = narrow<T>(v * sigmoid_of(kTwoRoot<A> * (v + kCube<A> * v * v * v)));
    }
    store(y + i, out);
  }
};

template <class T>
struct GeluBackwardElements {
  using A = Accum<T>;
  const T *x, *dy;
  T* dx;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const auto in = load<N>(x + i), d_out = load<N>(dy + i);
    Pack<T, N> out;
#pragma unroll
    for (int l = 0; l < N; ++l) {
      const A v = widen<A>(in.at[l]);
      const auto s = sigmoid_slope_of(kTwoRoot<A> * (v + kCube<A> * v * v * v));
      const A slope = s.value + v * s.slope * kTwoRoot<A> * (1 + 3 * kCube<A> * v * v);
      out.at[l] = narrow<T>(widen<A>(d_out.at[l]) * slope);
    }
    store(dx + i, out);
  }
};

}  // namespace

void execute(const SwigluForward& op, const CudaContext& ctx) {
  with_device_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const SwigluForwardElements<T> f{elements<T>(op.x), elements<T>(op.y), op.y.dim(1)};
    for_each<kPackOf<T>>(op.y.count(), f.width % kPackOf<T> == 0 && packs_aligned({f.x, f.y}), f, ctx);
  });
}

void execute(const SwigluBackward& op, const CudaContext& ctx) {
  with_device_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const SwigluBackwardElements<T> f{elements<T>(op.x), elements<T>(op.dy), elements<T>(op.dx),
                                      op.dy.dim(1)};
    for_each<kPackOf<T>>(op.dy.count(), f.width % kPackOf<T> == 0 && packs_aligned({f.x, f.dy, f.dx}), f,
                         ctx);
  });
}

void execute(const GeluForward& op, const CudaContext& ctx) {
  with_device_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const GeluForwardElements<T> f{elements<T>(op.x), elements<T>(op.y)};
    for_each<kPackOf<T>>(op.x.count(), packs_aligned({f.x, f.y}), f, ctx);
  });
}

void execute(const GeluBackward& op, const CudaContext& ctx) {
  with_device_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const GeluBackwardElements<T> f{elements<T>(op.x), elements<T>(op.dy), elements<T>(op.dx)};
    for_each<kPackOf<T>>(op.x.count(), packs_aligned({f.x, f.dy, f.dx}), f, ctx);
  });
}

}  // namespace fivefold::cuda
