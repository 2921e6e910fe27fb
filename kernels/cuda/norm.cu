// RMSNorm and LayerNorm: a block a row. The weight gradients are column sums, taken before dx is written,
// since dx may lie where dy does.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/execute.cuh"

namespace fivefold::cuda {

namespace {

constexpr int kRowThreads = 256;
constexpr std::int64_t kMostRows = 1 << 20;  // blocks of a launch; further rows are taken in turn

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

// Calls f(d) for the packs of N elements of a row that are this thread's.
template <int N, class F>
__device__ __forceinline__ void packs_of_row(std::int64_t width, F&& f) {
  for (std::int64_t d = static_cast<std::int64_t>(threadIdx.x) * N; d < width;
       d += static_cast<std::int64_t>(blockDim.x) * N)
    f(d);
}

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
__global__ void __launch_bounds__(kRowThreads) norm_forward(Forward<T, W> op) {
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
struct Backward {
  using A = Accum<T>;
  const T* x;
  const W* weight;
  const A *mean, *rstd;
  const T *dy, *residual;
  T* dx;
  std::int64_t rows, width;

  // Adds what an element gives to the gradients of weight and bias.
  __device__ void operator()(std::int64_t t, std::int64_t d, A* sum) const {
    const A g = widen<A>(dy[t * width + d]), center = mean ? mean[t] : A(0);
    sum[0] += g * ((widen<A>(x[t * width + d]) - center) * rstd[t]);
    if (mean) sum[1] += g;
  }
};

// With n = (x - mean) rstd and g = dy weight: dx = rstd (g - n mean(g n) [- mean(g) when centred]) +
// residual.
template <int N, class T, class W>
__global__ void __launch_bounds__(kRowThreads) norm_backward(Backward<T, W> op) {
  using A = Accum<T>;
  const std::int64_t width = op.width;
  const A inverse = A(1) / static_cast<A>(width);
  for (std::int64_t t = blockIdx.x; t < op.rows; t += gridDim.x) {
    const std::int64_t row = t * width;
    const A scale = op.rstd[t], center = op.mean ? op.mean[t] : A(0);
    A along = 0, average = 0;
    packs_of_row<N>(width, [&](std::int64_t d) {
      const auto v = load<N>(op.x + row + d), grad = load<N>(op.dy + row + d);
      const auto w = load<N>(op.weight + d);
#pragma unroll
      for (int l = 0; l < N; ++l) {
        const A g = widen<A>(grad.at[l]) * widen<A>(w.at[l]);
        along += g * ((widen<A>(v.at[l]) - center) * scale);
        average += g;
      }
    });
    along = join_block(along) * inverse;
    average = op.mean ? join_block(average) * inverse : A(0);
    packs_of_row<N>(width, [&](std::int64_t d) {
      const auto v = load<N>(op.x + row + d), grad = load<N>(op.dy + row + d);
      const auto w = load<N>(op.weight + d);
      Pack<T, N> around = grad, out;
      if (op.residual) around = load<N>(op.residual + row + d);
#pragma unroll
      for (int l = 0; l < N; ++l) {
        const A n = (widen<A>(v.at[l]) - center) * scale;
        const A slope = scale * (widen<A>(grad.at[l]) * widen<A>(w.at[l]) - n * along - average);
        out.at[l] = narrow<T>(op.residual ? widen<A>(around.at[l]) + slope : slope);
      }
      store(op.dx + row + d, out);
    });
  }
}

// Threads for a row of `packs` packs: whole warps.
unsigned row_threads(std::int64_t packs) {
  return static_cast<unsigned>(std::clamp<std::int64_t>(round_up(packs, 32), 32, kRowThreads));
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
  const auto blocks = blocks_for(f.rows, 1, kMostRows);
  if (f.width % N == 0 && packs_aligned({f.x, f.delta, f.sum, f.weight, f.bias, f.y}))
    norm_forward<N><<<blocks, row_threads(f.width / N), 0, ctx.stream>>>(f);
  else
    norm_forward<1><<<blocks, row_threads(f.width), 0, ctx.stream>>>(f);
  FF_CUDA(cudaGetLastError());
}

template <class T, class W>
void backward(const NormBackward& op, const CudaContext& ctx) {
  using A = Accum<T>;
  constexpr int N = kPackOf<T>;
  const Backward<T, W> f{
      elements<T>(op.x),  elements<W>(op.weight),   elements<A>(op.mean), elements<A>(op.rstd),
      elements<T>(op.dy), elements<T>(op.residual), elements<T>(op.dx),   op.x.dim(0),
      op.x.dim(1)};
  if (op.layer)
    add_column_sums<2, A>(f.rows, f.width, f, {elements<A>(op.d_weight), elements<A>(op.d_bias)}, ctx);
  else
    add_column_sums<1, A>(f.rows, f.width, f, {elements<A>(op.d_weight)}, ctx);
  if (f.rows == 0) return;
  const auto blocks = blocks_for(f.rows, 1, kMostRows);
  if (f.width % N == 0 && packs_aligned({f.x, f.weight, f.dy, f.residual, f.dx}))
    norm_backward<N><<<blocks, row_threads(f.width / N), 0, ctx.stream>>>(f);
  else
    norm_backward<1><<<blocks, row_threads(f.width), 0, ctx.stream>>>(f);
  FF_CUDA(cudaGetLastError());
}

// Calls f(T{}, W{}) with the types of the rows and of the weight.
template <class Op, class F>
void with_types(const Op& op, F f) {
  with_device_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (op.weight.dtype() == op.x.dtype())
      f(T{}, T{});
    else
      f(T{}, Accum<T>{});
  });
}

}  // namespace

void execute(const NormForward& op, const CudaContext& ctx) {
  with_types(op, [&](auto t, auto w) { forward<decltype(t), decltype(w)>(op, ctx); });
}

void execute(const NormBackward& op, const CudaContext& ctx) {
  with_types(op, [&](auto t, auto w) { backward<decltype(t), decltype(w)>(op, ctx); });
}

}  // namespace fivefold::cuda
