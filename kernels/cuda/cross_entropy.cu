// Statistics of logit rows in one pass over memory, and loss and gradient from them: a block a row. Soft-max
// arithmetic in the arithmetic type, losses in f64.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/execute.cuh"

namespace fivefold::cuda {

namespace {

constexpr int kStats = 3;  // max, sum, target logit
constexpr int kRowThreads = 512;
constexpr std::int64_t kMostRows = 1 << 20;  // blocks of a launch; further rows are taken in turn

constexpr int kBatch = 4;  // packs of a thread on their way at once

// Calls f(begin, N, B as constants) for this thread's share of a row of `count` elements: B packs of N
// elements, the first at `begin`, the others blockDim.x packs apart.
template <int N, class F>
__device__ __forceinline__ void share_of_row(std::int64_t count, F&& f) {
  const std::int64_t packs = count / N, step = blockDim.x;
  std::int64_t p = threadIdx.x;
  for (; p + (kBatch - 1) * step < packs; p += kBatch * step)
    f(p * N, std::integral_constant<int, N>{}, std::integral_constant<int, kBatch>{});
  for (; p < packs; p += step) f(p * N, std::integral_constant<int, N>{}, std::integral_constant<int, 1>{});
  if constexpr (N > 1)
    for (std::int64_t i = packs * N + threadIdx.x; i < count; i += blockDim.x)
      f(i, std::integral_constant<int, 1>{}, std::integral_constant<int, 1>{});
}

template <int N, int B, class T>
struct Batch {
  Pack<T, N> at[B];
  __device__ explicit Batch(const T* from) {
#pragma unroll
    for (int b = 0; b < B; ++b) at[b] = load<N>(from + static_cast<std::int64_t>(b) * blockDim.x * N);
  }
};

// exp of a difference of logits, which is not positive but for rounding. For bf16 logits 2^(x log2 e) by the
// special function unit (PTX manual: at most 2 ulp): where x is far from 0, the product's rounding is 2^-24
// |x log2 e| of a number that is as much smaller.
template <class T>
__device__ __forceinline__ Accum<T> exp_of_logit(Accum<T> x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
    return y;
  } else {
    return exp_of(x);
  }
}

// Maximum and sum of exp(l - maximum) of what a thread has seen.
template <class A>
struct Running {
  A top = -infinity<A>(), sum = 0;

  template <int N, int B, class T>
  __device__ __forceinline__ void absorb(const Batch<N, B, T>& batch) {
    A higher = top;
#pragma unroll
    for (int b = 0; b < B; ++b)
#pragma unroll
      for (int l = 0; l < N; ++l) higher = Greatest()(higher, widen<A>(batch.at[b].at[l]));
    if (higher > top) {
      sum *= exp_of(top - higher);
      top = higher;
    }
    if (top == -infinity<A>()) return;
#pragma unroll
    for (int b = 0; b < B; ++b)
#pragma unroll
      for (int l = 0; l < N; ++l) sum += exp_of_logit<T>(widen<A>(batch.at[b].at[l]) - top);
  }
};

template <int N, class T>
__global__ void __launch_bounds__(kRowThreads)
    vocab_stats(const T* logits, const std::int32_t* target, Accum<T>* stats, std::int64_t rows,
                std::int64_t width, std::int64_t columns, std::int64_t first_column) {
  using A = Accum<T>;
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const T* const row = logits + r * width;
    Running<A> mine;
    share_of_row<N>(columns, [&](std::int64_t i, auto n, auto b) {
      mine.absorb(Batch<decltype(n)::value, decltype(b)::value, T>(row + i));
    });
    const A top = join_block(mine.top, Greatest());
    const A sum = join_block(mine.top == -infinity<A>() ? A(0) : mine.sum * exp_of(mine.top - top));
    if (threadIdx.x != 0) continue;
    const std::int64_t column = target[r] - first_column;
    const bool here = target[r] != kNoTarget && column >= 0 && column < columns;
    stats[r * kStats] = top;
    stats[r * kStats + 1] = sum;
    stats[r * kStats + 2] = here ? widen<A>(row[column]) : A(0);
  }
}

template <class T>
struct LossRows {
  using A = Accum<T>;
  T* logits;
  const std::int32_t* target;
  const A* stats;
  A* row_loss;
  double* losses;  // [rows]
  std::int64_t rows, width, columns, parts, first_column;
  A scale;
  bool gradient;
};

// What the parts of a row join to. Every thread of the block does this for itself.
template <class A>
struct Joined {
  A top = -infinity<A>(), sum = 0, target = 0;

  __device__ Joined(const A* stats, std::int64_t parts, std::int64_t stride) {
    for (std::int64_t p = 0; p < parts; ++p) top = Greatest()(top, stats[p * stride]);
    for (std::int64_t p = 0; p < parts; ++p) {
      const A* const part = stats + p * stride;
      sum += part[1] * exp_of(part[0] - top);  // a part without columns adds 0
      target += part[2];
    }
  }
  __device__ double loss() const {
    return log(static_cast<double>(sum)) + (static_cast<double>(top) - static_cast<double>(target));
  }
};

template <int N, class T>
__global__ void __launch_bounds__(kRowThreads) cross_entropy(LossRows<T> op) {
  using A = Accum<T>;
  for (std::int64_t r = blockIdx.x; r < op.rows; r += gridDim.x) {
    const bool counts = op.target[r] != kNoTarget;
    const Joined<A> joined(op.stats + r * kStats, counts ? op.parts : 0, op.rows * kStats);
    if (threadIdx.x == 0) {
      const double loss = counts ? joined.loss() : 0.0;
      op.losses[r] = loss;
      if (op.row_loss) op.row_loss[r] = static_cast<A>(loss);
    }
    if (!op.gradient) continue;
    const std::int64_t column = op.target[r] - op.first_column, real = counts ? op.columns : 0;
    const A factor = op.scale / joined.sum;
    T* const row = op.logits + r * op.width;
    share_of_row<N>(op.width, [&](std::int64_t begin, auto n, auto batches) {
      constexpr int kPack = decltype(n)::value;
      Batch<kPack, decltype(batches)::value, T> batch(row + begin);
#pragma unroll
      for (int b = 0; b < decltype(batches)::value; ++b) {
        const std::int64_t i = begin + static_cast<std::int64_t>(b) * blockDim.x * kPack;
        const auto hit = static_cast<int>(column - i), left = static_cast<int>(real - i);
#pragma unroll
        for (int l = 0; l < kPack; ++l) {
          const A p = factor * exp_of_logit<T>(widen<A>(batch.at[b].at[l]) - joined.top);
          batch.at[b].at[l] = narrow<T>(l >= left ? A(0) : l == hit ? p - op.scale : p);
        }
        store(row + i, batch.at[b]);
      }
    });
  }
}

// loss += sum of the rows' losses, in one order.
__global__ void add_losses(const double* losses, std::int64_t rows, double* loss) {
  double sum = 0;
  for (std::int64_t r = threadIdx.x; r < rows; r += blockDim.x) sum += losses[r];
  sum = join_block(sum);
  if (threadIdx.x == 0) *loss += sum;
}

// True where rows of `width` elements can be taken in packs.
template <class T>
bool in_packs(const Tensor& logits) {
  return logits.dim(1) % kPackOf<T> == 0 && packs_aligned({logits.raw()});
}

template <class T>
void queue_stats(const VocabStats& op, const CudaContext& ctx) {
  const std::int64_t rows = op.logits.dim(0);
  if (rows == 0) return;
  const auto queue = [&](auto kernel) {
    kernel<<<blocks_for(rows, 1, kMostRows), kRowThreads, 0, ctx.stream>>>(
        elements<T>(op.logits), elements<std::int32_t>(op.target), elements<Accum<T>>(op.stats), rows,
        op.logits.dim(1), op.columns, op.first_column);
    FF_CUDA(cudaGetLastError());
  };
  in_packs<T>(op.logits) ? queue(vocab_stats<kPackOf<T>, T>) : queue(vocab_stats<1, T>);
}

template <class T>
void queue_cross_entropy(const CrossEntropy& op, const CudaContext& ctx) {
  using A = Accum<T>;
  const std::int64_t rows = op.logits.dim(0);
  if (rows == 0) return;
  const LossRows<T> f{elements<T>(op.logits),   elements<std::int32_t>(op.target),
                      elements<A>(op.stats),    elements<A>(op.row_loss),
                      ctx.room<double>(rows),   rows,
                      op.logits.dim(1),         op.columns,
                      op.stats.dim(0),          op.first_column,
                      static_cast<A>(op.scale), op.gradient};
  const auto blocks = blocks_for(rows, 1, kMostRows);
  if (in_packs<T>(op.logits))
    cross_entropy<kPackOf<T>><<<blocks, kRowThreads, 0, ctx.stream>>>(f);
  else
    cross_entropy<1><<<blocks, kRowThreads, 0, ctx.stream>>>(f);
  FF_CUDA(cudaGetLastError());
  add_losses<<<1, kRowThreads, 0, ctx.stream>>>(f.losses, rows, elements<double>(op.loss));
  FF_CUDA(cudaGetLastError());
}

}  // namespace

void execute(const VocabStats& op, const CudaContext& ctx) {
  with_device_float(op.logits.dtype(), [&](auto t) { queue_stats<decltype(t)>(op, ctx); });
}

void execute(const CrossEntropy& op, const CudaContext& ctx) {
  with_device_float(op.logits.dtype(), [&](auto t) { queue_cross_entropy<decltype(t)>(op, ctx); });
}

}  // namespace fivefold::cuda
