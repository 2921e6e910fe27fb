// RMSNorm and LayerNorm, forwards: a block a row.
#include "kernels/cuda/execute.cuh"
#include "kernels/cuda/norm.cuh"

namespace fivefold::cuda {

namespace {

template <class T, class W>
struct Forward {
  using A = Accum<T>;
  const T *x, *delta;
  T* sum;
  const W *weight, *bias;
  T* y;
  A *mean, *rstd;
  A eps;
  std::int64_t rows, width;
};

// Sum over a row of f(x).
template <int N, class T, class F>
__device__ __forceinline__ Accum<T> sum_of_row(const T* row, std::int64_t width, F&& f) {
  using A = Accum<T>;
  A sum = 0;
  packs_of_row<N>(width, [&](std::int64_t d) {
    const auto pack = load<N>(row + d);
#pragma unroll
    for (int l = 0; l < N; ++l) sum += f(widen<A>(pack.at[l]));
  });
  return join_block(sum);
}

template <int N, class T, class W>
__global__ void __launch_bounds__(kNormThreads) norm_forward(Forward<T, W> op) {
  using A = Accum<T>;
  const std::int64_t width = op.width;
  const A inverse = A(1) / static_cast<A>(width);
  for (std::int64_t t = blockIdx.x; t < op.rows; t += gridDim.x) {
    const T* in = op.x + t * width;
    if (op.delta) {
      packs_of_row<N>(width, [&](std::int64_t d) {
        auto a = load<N>(in + d);
        const auto b = load<N>(op.delta + t * width + d);
#pragma unroll
        for (int l = 0; l < N; ++l) a.at[l] = narrow<T>(widen<A>(a.at[l]) + widen<A>(b.at[l]));
        store(op.sum + t * width + d, a);
      });
      in = op.sum + t * width;  // each thread reads back what it wrote
    }
    const A center = op.mean ? sum_of_row<N>(in, width, [](A v) { return v; }) * inverse : A(0);
    const A squares = sum_of_row<N>(in, width, [=](A v) { return (v - center) * (v - center); });
    const A scale = A(1) / root_of(squares * inverse + op.eps);
    if (threadIdx.x == 0) {
      op.rstd[t] = scale;
      if (op.mean) op.mean[t] = center;
    }
    packs_of_row<N>(width, [&](std::int64_t d) {
      const auto v = load<N>(in + d);
      const auto w = load<N>(op.weight + d);
      Pack<W, N> b = w;
      if (op.bias) b = load<N>(op.bias + d);
      Pack<T, N> out;
#pragma unroll
      for (int l = 0; l < N; ++l) {
        const A scaled = (widen<A>(v.at[l]) - center) * scale * widen<A>(w.at[l]);
        out.at[l] = narrow<T>(op.bias ? scaled + widen<A>(b.at[l]) : scaled);
      }
      store(op.y + t * width + d, out);
    });
  }
}

template <class T, class W>
void forward(const NormForward& op, const CudaContext& ctx) {
  using A = Accum<T>;
  constexpr int N = kPackOf<T>;
  const Forward<T, W> f{
      elements<T>(op.x),      elements<T>(op.delta), elements<T>(op.sum),  elements<W>(op.weight),
      elements<W>(op.bias),   elements<T>(op.y),     elements<A>(op.mean), elements<A>(op.rstd),
      static_cast<A>(op.eps), op.x.dim(0),           op.x.dim(1)};
  if (f.rows == 0) return;
  const auto blocks = blocks_for(f.rows, 1, kMostNormRows);
  if (f.width % N == 0 && packs_aligned({f.x, f.delta, f.sum, f.weight, f.bias, f.y}))
    norm_forward<N><<<blocks, row_threads(f.width / N), 0, ctx.stream>>>(f);
  else
    norm_forward<1><<<blocks, row_threads(f.width), 0, ctx.stream>>>(f);
  FF_CUDA(cudaGetLastError());
}

}  // namespace

void execute(const NormForward& op, const CudaContext& ctx) {
  with_norm_types(op, [&](auto t, auto w) { forward<decltype(t), decltype(w)>(op, ctx); });
}

}  // namespace fivefold::cuda
