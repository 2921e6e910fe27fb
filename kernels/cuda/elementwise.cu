// Sums, casts and fills.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/execute.cuh"

namespace fivefold::cuda {

namespace {

template <class T>
struct AddElements {
  const T *a, *b;
  T* out;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const auto x = load<N>(a + i), y = load<N>(b + i);
    Pack<T, N> sum;
#pragma unroll
    for (int l = 0; l < N; ++l) sum.at[l] = narrow<T>(widen<Accum<T>>(x.at[l]) + widen<Accum<T>>(y.at[l]));
    store(out + i, sum);
  }
};

// One rounding from any floating type to any other. With `accumulate` the sum is taken in the wider of the
// two arithmetic types.
template <class To, class From>
struct ConvertElements {
  using A = std::conditional_t<std::is_same_v<From, double>, double, Accum<To>>;
  const From* x;
  To* y;
  bool accumulate;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const auto from = load<N>(x + i);
    Pack<To, N> to;
    if (accumulate) to = load<N>(y + i);
#pragma unroll
    for (int l = 0; l < N; ++l) {
      const A added = widen<A>(from.at[l]);
      to.at[l] = narrow<To>(accumulate ? widen<A>(to.at[l]) + added : added);
    }
    store(y + i, to);
  }
};

template <class T>
struct FillElements {
  T* x;
  T value;

  template <int N>
  __device__ void run(std::int64_t i) const {
    Pack<T, N> all;
#pragma unroll
    for (int l = 0; l < N; ++l) all.at[l] = value;
    store(x + i, all);
  }
};

template <class T>
T host_value(double value) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

}  // namespace

void execute(const Add& op, const CudaContext& ctx) {
  with_device_float(op.a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const AddElements<T> f{elements<T>(op.a), elements<T>(op.b), elements<T>(op.out)};
    for_each<kPackOf<T>>(op.a.count(), packs_aligned({f.a, f.b, f.out}), f, ctx);
  });
}

void execute(const Convert& op, const CudaContext& ctx) {
  with_device_float(op.x.dtype(), [&](auto from) {
    with_device_float(op.y.dtype(), [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      constexpr int kWidth = std::max(kPackOf<From>, kPackOf<To>);
      const ConvertElements<To, From> f{elements<From>(op.x), elements<To>(op.y), op.accumulate};
      for_each<kWidth>(op.x.count(), packs_aligned({f.x, f.y}), f, ctx);
    });
  });
}

void execute(const Fill& op, const CudaContext& ctx) {
  with_device_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const FillElements<T> f{elements<T>(op.x), host_value<T>(op.value)};
    for_each<kPackOf<T>>(op.x.count(), packs_aligned({f.x}), f, ctx);
  });
}

}  // namespace fivefold::cuda
