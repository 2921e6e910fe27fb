// Column sums.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/execute.cuh"

namespace fivefold::cuda {

namespace {

template <class T>
struct Entries {
  using A = Accum<T>;
  const T* dy;
  std::int64_t width;

  template <int N>
  __device__ void add(std::int64_t row, std::int64_t column, A (&sum)[1][N]) const {
    const auto pack = load<N>(dy + row * width + column);
#pragma unroll
    for (int l = 0; l < N; ++l) sum[0][l] += widen<A>(pack.at[l]);
  }
};

template <int N, class T>
void add_rows(const BiasGradient& op, const CudaContext& ctx) {
  using A = Accum<T>;
  add_column_sums<N, 1, A>(op.dy.dim(0), op.dy.dim(1), Entries<T>{elements<T>(op.dy), op.dy.dim(1)},
                           {elements<A>(op.d_bias)}, ctx);
}

}  // namespace

void execute(const BiasGradient& op, const CudaContext& ctx) {
  with_device_float(op.dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (op.dy.dim(1) % kPackOf<T> == 0 && packs_aligned({op.dy.raw()}))
      add_rows<kPackOf<T>, T>(op, ctx);
    else
      add_rows<1, T>(op, ctx);
  });
}

}  // namespace fivefold::cuda
