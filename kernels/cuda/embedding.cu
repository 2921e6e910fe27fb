// Rows of the table by token, and their gradients. Backward sorts the tokens by row, keeping their order, so
// each row of the table is added up by one block in order of t: no atomics, and the bits of the CPU.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/execute.cuh"

namespace fivefold::cuda {

namespace {

// y (+)= table[ids - first_row]; packs do not cross rows.
template <class T>
struct ForwardElements {
  using A = Accum<T>;
  const std::int32_t* ids;
  const T* table;
  T* y;
  std::int64_t first_row, rows, width;
  bool accumulate;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const std::int64_t t = i / width, row = ids[t] - first_row;
    const bool here = row >= 0 && row < rows;
    if (accumulate && !here) return;
    Pack<T, N> out;
#pragma unroll
    for (int l = 0; l < N; ++l) out.at[l] = narrow<T>(A(0));
    if (here) out = load<N>(table + row * width + (i - t * width));
    if (accumulate) {
      const auto before = load<N>(y + i);
#pragma unroll
      for (int l = 0; l < N; ++l) out.at[l] = narrow<T>(widen<A>(before.at[l]) + widen<A>(out.at[l]));
    }
    store(y + i, out);
  }
};

// sorted[place of t] = t and row_of[place of t] = its row, where places go by (row, t). A token's place is
// the number of tokens before it in that order, counted: tokens^2 comparisons of integers. A block has 32
// tokens; its warps share the comparisons.
__global__ void sort_tokens(const std::int32_t* ids, std::int64_t tokens, std::int32_t* sorted,
                            std::int32_t* row_of) {
  __shared__ std::int32_t others[kThreads];
  __shared__ std::int64_t places[kThreads];
  const int lane = static_cast<int>(threadIdx.x) % 32, first = static_cast<int>(threadIdx.x) / 32 * 32;
  const std::int64_t t = static_cast<std::int64_t>(blockIdx.x) * 32 + lane;
  const std::int32_t mine = t < tokens ? ids[t] : 0;
  std::int64_t place = 0;
  for (std::int64_t begin = 0; begin < tokens; begin += kThreads) {
    const std::int64_t left = tokens - begin;
    const int count = static_cast<int>(left < kThreads ? left : kThreads);
    __syncthreads();
    if (threadIdx.x < count) others[threadIdx.x] = ids[begin + threadIdx.x];
    __syncthreads();
    const std::int64_t before = t - begin;  // others[i] with i < before come earlier
    for (int i = first; i < first + 32 && i < count; ++i)
      place += others[i] < mine || (others[i] == mine && i < before);
  }
  places[threadIdx.x] = place;
  __syncthreads();
  if (first > 0 || t >= tokens) return;
  for (int w = 1; w < kThreads / 32; ++w) place += places[32 * w + lane];
  sorted[place] = static_cast<std::int32_t>(t);
  row_of[place] = mine;
}

// A block is a place in the order and some columns; it works if its token is the first of its row.
template <class T>
__global__ void add_rows(const std::int32_t* sorted, const std::int32_t* row_of, std::int64_t tokens,
                         const T* dy, Accum<T>* table, std::int64_t first_row, std::int64_t rows,
                         std::int64_t width) {
  using A = Accum<T>;
  const std::int64_t begin = blockIdx.x, row = row_of[begin] - first_row;
  if (row < 0 || row >= rows || (begin > 0 && row_of[begin - 1] == row_of[begin])) return;
  std::int64_t end = begin + 1;
  while (end < tokens && row_of[end] == row_of[begin]) ++end;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * blockDim.x;
  for (std::int64_t c = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; c < width;
       c += stride) {
    A sum = table[row * width + c];
#pragma unroll 8
    for (std::int64_t i = begin; i < end; ++i) sum += widen<A>(dy[sorted[i] * width + c]);
    table[row * width + c] = sum;
  }
}

template <class T>
void backward(const EmbeddingBackward& op, const CudaContext& ctx) {
  const std::int64_t tokens = op.ids.dim(0), width = op.dy.dim(1);
  if (tokens == 0 || width == 0) return;
  auto* const sorted = ctx.room<std::int32_t>(2 * tokens);
  auto* const row_of = sorted + tokens;
  sort_tokens<<<static_cast<unsigned>(ceil_div(tokens, 32)), kThreads, 0, ctx.stream>>>(
      elements<std::int32_t>(op.ids), tokens, sorted, row_of);
  FF_CUDA(cudaGetLastError());
  const dim3 grid(static_cast<unsigned>(tokens), blocks_for(width, kThreads, 1024));
  add_rows<T><<<grid, kThreads, 0, ctx.stream>>>(sorted, row_of, tokens, elements<T>(op.dy),
                                                 elements<Accum<T>>(op.d_table), op.first_row,
                                                 op.d_table.dim(0), width);
  FF_CUDA(cudaGetLastError());
}

}  // namespace

void execute(const EmbeddingForward& op, const CudaContext& ctx) {
  with_device_float(op.table.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const ForwardElements<T> f{elements<std::int32_t>(op.ids),
                               elements<T>(op.table),
                               elements<T>(op.y),
                               op.first_row,
                               op.table.dim(0),
                               op.table.dim(1),
                               op.accumulate};
    for_each<kPackOf<T>>(op.y.count(), f.width % kPackOf<T> == 0 && packs_aligned({f.table, f.y}), f, ctx);
  });
}

void execute(const EmbeddingBackward& op, const CudaContext& ctx) {
  with_device_float(op.dy.dtype(), [&](auto t) { backward<decltype(t)>(op, ctx); });
}

}  // namespace fivefold::cuda
