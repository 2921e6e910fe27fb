// RMSNorm and LayerNorm, backwards. Rows of up to 8 KiB an operand are read once: a block keeps a row in
// registers, and with it what its rows add to the gradients of weight and bias. Other rows are read twice,
// the gradients of the weights first, since dx may lie where dy does.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/execute.cuh"
#include "kernels/cuda/norm.cuh"

namespace fivefold::cuda {

namespace {

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
  template <int Count>
  __device__ void add(std::int64_t t, std::int64_t d, A (&sum)[Count][1]) const {
    const A g = widen<A>(dy[t * width + d]), center = mean ? mean[t] : A(0);
    sum[0][0] += g * ((widen<A>(x[t * width + d]) - center) * rstd[t]);
    if constexpr (Count == 2) sum[1][0] += g;
  }
};

// With n = (x - mean) rstd and g = dy weight: dx = rstd (g - n mean(g n) [- mean(g) when centred]) +
// residual.
template <int N, class T, class W>
__global__ void __launch_bounds__(kNormThreads) norm_backward(Backward<T, W> op) {
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

// The packs of a row that are one thread's, read without conditions so that they stay whole in registers:
// threads behind the row read its start.
template <int N, int Packs, class T>
struct RowPart {
  Pack<T, N> at[Packs];

  __device__ __forceinline__ void read(const T* row, int width) {
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
      const int d = static_cast<int>(p * blockDim.x + threadIdx.x) * N;
      at[p] = load<N>(row + (d < width ? d : 0));
    }
  }
};

constexpr int kOnceThreads = 512, kOnceWarps = kOnceThreads / 32;

// Sums over the block, each in one fixed order. of_warp is room of this call's alone until all threads have
// passed the next call's barrier.
template <int Count, class A>
__device__ __forceinline__ void join_once(A (&sum)[Count], A (*of_warp)[kOnceWarps]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, from = lane % kOnceWarps;
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    sum[i] = join_lanes(sum[i]);
    if (lane == 0) of_warp[i][threadIdx.x / 32] = sum[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < Count; ++i)
    sum[i] = join_lanes<kOnceWarps>(from * 32 < blockDim.x ? of_warp[i][from] : A(0));
}

// Rows [block * rows_of_block, ...). partial[block]: sums for the gradient of weight [width], then of bias.
template <int N, int Packs, bool Layer, class T, class W>
__global__ void __launch_bounds__(kOnceThreads, Packs == 1 ? 2 : 1)
    norm_backward_once(Backward<T, W> op, std::int64_t rows_of_block, Accum<T>* partial) {
  using A = Accum<T>;
  __shared__ A room[2][2][kOnceWarps];
  const std::int64_t begin = blockIdx.x * rows_of_block, limit = begin + rows_of_block,
                     end = limit < op.rows ? limit : op.rows;
  const int width = static_cast<int>(op.width);
  const A inverse = A(1) / static_cast<A>(width);
  const auto column = [](int p) { return static_cast<int>(p * blockDim.x + threadIdx.x) * N; };
  RowPart<N, Packs, W> weight;
  A of_weight[Packs][N] = {}, of_bias[Layer ? Packs : 1][N] = {};
  weight.read(op.weight, width);
  RowPart<N, Packs, T> x_row, dy_row, residual, next_x, next_dy;
  next_x.read(op.x + begin * width, width);
  next_dy.read(op.dy + begin * width, width);
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t next = t + 1 < end ? t + 1 : t;
    x_row = next_x;
    dy_row = next_dy;
    next_x.read(op.x + next * width, width);
    next_dy.read(op.dy + next * width, width);
    if (op.residual) residual.read(op.residual + t * width, width);
    const A scale = op.rstd[t], center = Layer ? op.mean[t] : A(0);
    A sum[Layer ? 2 : 1] = {};  // of g (x - mean), of g
#pragma unroll
    for (int p = 0; p < Packs; ++p)
#pragma unroll
      for (int l = 0; l < N && column(p) < width; ++l) {
        const A dy = widen<A>(dy_row.at[p].at[l]), x = widen<A>(x_row.at[p].at[l]) - center,
                g = dy * widen<A>(weight.at[p].at[l]);
        sum[0] += g * x;
        of_weight[p][l] += dy * scale * x;
        if constexpr (Layer) {
          sum[1] += g;
          of_bias[p][l] += dy;
        }
      }
    join_once(sum, room[t % 2]);
    const A along = sum[0] * inverse * scale * scale, average = Layer ? sum[Layer] * inverse : A(0);
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
      if (column(p) >= width) continue;
      Pack<T, N> out;
#pragma unroll
      for (int l = 0; l < N; ++l) {
        const A around = op.residual ? widen<A>(residual.at[p].at[l]) : A(0);
        const A g = widen<A>(dy_row.at[p].at[l]) * widen<A>(weight.at[p].at[l]) - average,
                x = widen<A>(x_row.at[p].at[l]) - center;
        out.at[l] = narrow<T>(around + scale * (g - x * along));
      }
      store(op.dx + t * op.width + column(p), out);
    }
  }
  A* const sums = partial + static_cast<std::int64_t>(blockIdx.x) * (Layer ? 2 : 1) * width;
#pragma unroll
  for (int p = 0; p < Packs; ++p)
#pragma unroll
    for (int l = 0; l < N && column(p) < width; ++l) {
      sums[column(p) + l] = of_weight[p][l];
      if constexpr (Layer) sums[width + column(p) + l] = of_bias[p][l];
    }
}

// Rows a block of `threads` takes, so that all blocks find room on an H200 at once.
std::int64_t rows_of_block(std::int64_t rows, int threads) {
  constexpr std::int64_t kMultiprocessors = 132, kThreadsThere = 1024;
  return ceil_div(rows, kMultiprocessors * std::clamp<std::int64_t>(kThreadsThere / threads, 1, 32));
}

template <int Packs, bool Layer, class T, class W>
void queue_once(const Backward<T, W>& f, const NormBackward& op, const CudaContext& ctx) {
  using A = Accum<T>;
  constexpr int N = kPackOf<T>, kSums = Layer ? 2 : 1;
  const auto threads = static_cast<int>(round_up(ceil_div(f.width, N * Packs), 32));
  const std::int64_t each = rows_of_block(f.rows, threads), blocks = ceil_div(f.rows, each);
  A* const partial = ctx.room<A>(blocks * kSums * f.width);
  norm_backward_once<N, Packs, Layer>
      <<<static_cast<unsigned>(blocks), threads, 0, ctx.stream>>>(f, each, partial);
  FF_CUDA(cudaGetLastError());
  queue_add_partials(partial, blocks, kSums * f.width, f.width, elements<A>(op.d_weight), ctx);
  if (Layer)
    queue_add_partials(partial + f.width, blocks, kSums * f.width, f.width, elements<A>(op.d_bias), ctx);
}

template <int Packs, class T, class W>
void queue_kind(const Backward<T, W>& f, const NormBackward& op, const CudaContext& ctx) {
  op.layer ? queue_once<Packs, true>(f, op, ctx) : queue_once<Packs, false>(f, op, ctx);
}

template <class T, class W>
void queue_twice(const Backward<T, W>& f, const NormBackward& op, bool packed, const CudaContext& ctx) {
  using A = Accum<T>;
  constexpr int N = kPackOf<T>;
  if (op.layer)
    add_column_sums<1, 2, A>(f.rows, f.width, f, {elements<A>(op.d_weight), elements<A>(op.d_bias)}, ctx);
  else
    add_column_sums<1, 1, A>(f.rows, f.width, f, {elements<A>(op.d_weight)}, ctx);
  const auto blocks = blocks_for(f.rows, 1, kMostNormRows);
  if (packed)
    norm_backward<N><<<blocks, row_threads(f.width / N), 0, ctx.stream>>>(f);
  else
    norm_backward<1><<<blocks, row_threads(f.width), 0, ctx.stream>>>(f);
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
  if (f.rows == 0 || f.width == 0) return;
  const bool packed = f.width % N == 0 && packs_aligned({f.x, f.weight, f.dy, f.residual, f.dx});
  if (packed && f.width <= kOnceThreads * N)
    queue_kind<1>(f, op, ctx);
  else if (packed && f.width <= 2 * kOnceThreads * N)
    queue_kind<2>(f, op, ctx);
  else
    queue_twice(f, op, packed, ctx);
}

}  // namespace

void execute(const NormBackward& op, const CudaContext& ctx) {
  with_norm_types(op, [&](auto t, auto w) { backward<decltype(t), decltype(w)>(op, ctx); });
}

}  // namespace fivefold::cuda
