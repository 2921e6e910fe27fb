// Rows of the table by token, and their gradients. Backward sorts the tokens by row, keeping their order, so
// each row of the table is added up by one block in order of t: no atomics, and the bits of the CPU.
#include <bit>
#include <cub/device/device_radix_sort.cuh>

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

// Rows of the table that tokens have here, `rows` for those that have none, and the tokens' numbers.
__global__ void find_rows(const std::int32_t* ids, std::int64_t tokens, std::int64_t first_row,
                          std::int64_t rows, std::int32_t* row_of, std::int32_t* token) {
  const std::int64_t t = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (t >= tokens) return;
  const std::int64_t row = ids[t] - first_row;
  row_of[t] = static_cast<std::int32_t>(row >= 0 && row < rows ? row : rows);
  token[t] = static_cast<std::int32_t>(t);
}

// A block is a place in the order by (row, token) and some columns; it works if its token is the first of its
// row, and adds the row's tokens in order.
template <int N, class T>
__global__ void __launch_bounds__(kThreads, 3)
    add_rows(const std::int32_t* row_of, const std::int32_t* token, std::int64_t tokens, const T* dy,
             Accum<T>* table, std::int64_t rows, std::int64_t width) {
  using A = Accum<T>;
  constexpr int kBatch = 8;                         // rows on their way at once
  __shared__ std::int32_t mine[kThreads + kBatch];  // the row's next tokens, -1 behind them
  const std::int64_t begin = blockIdx.x;
  const std::int32_t row = row_of[begin];
  if (row == rows || (begin > 0 && row_of[begin - 1] == row)) return;
  const std::int64_t mine_c = (static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x) * N;
  const std::int64_t c = mine_c < width ? mine_c : 0;  // loads without conditions stay whole in registers
  A* const to = table + row * width + c;
  auto sum = load<N>(to);
  bool more = true;
  for (std::int64_t from = begin; more; from += kThreads) {
    const std::int64_t i = from + threadIdx.x;
    const bool same = i < tokens && row_of[i] == row;
    mine[threadIdx.x] = same ? token[i] : -1;
    if (threadIdx.x < kBatch) mine[kThreads + threadIdx.x] = -1;
    more = __syncthreads_and(same);
    for (int at = 0; mine[at] >= 0; at += kBatch) {
      Pack<T, N> pack[kBatch];
#pragma unroll
      for (int u = 0; u < kBatch; ++u)
        pack[u] = load<N>(dy + (mine[at + u] >= 0 ? mine[at + u] : mine[at]) * width + c);
#pragma unroll
      for (int u = 0; u < kBatch; ++u)
#pragma unroll
        for (int l = 0; l < N && mine[at + u] >= 0; ++l) sum.at[l] += widen<A>(pack[u].at[l]);
    }
    __syncthreads();  // `mine` has been read
  }
  if (mine_c < width) store(to, sum);
}

// The tokens of a call by (row, token), in scratch memory. The sort is stable, so equal rows keep the order
// of their tokens.
struct SortedTokens {
  std::int32_t *row_of, *token;

  SortedTokens(const EmbeddingBackward& op, const CudaContext& ctx) {
    const std::int64_t tokens = op.ids.dim(0), rows = op.d_table.dim(0), room = round_up(tokens, 64);
    const auto count = static_cast<int>(tokens);
    const int bits = std::bit_width(static_cast<std::uint64_t>(rows));
    std::size_t bytes = 0;
    const auto sort = [&](void* work, std::int32_t* all) {
      FF_CUDA(cub::DeviceRadixSort::SortPairs(work, bytes, all, all + room, all + 2 * room, all + 3 * room,
                                              count, 0, bits, ctx.stream));
    };
    sort(nullptr, nullptr);
    auto* const all =
        ctx.room<std::int32_t>(4 * room + ceil_div(static_cast<std::int64_t>(bytes), sizeof(std::int32_t)));
    find_rows<<<blocks_for(tokens, kThreads, 1 << 30), kThreads, 0, ctx.stream>>>(
        elements<std::int32_t>(op.ids), tokens, op.first_row, rows, all, all + 2 * room);
    FF_CUDA(cudaGetLastError());
    sort(all + 4 * room, all);
    row_of = all + room;
    token = all + 3 * room;
  }
};

template <class T>
void backward(const EmbeddingBackward& op, const CudaContext& ctx) {
  const std::int64_t tokens = op.ids.dim(0), width = op.dy.dim(1);
  if (tokens == 0 || width == 0) return;
  const SortedTokens sorted(op, ctx);
  const auto queue = [&](auto kernel, int pack) {
    const dim3 grid(static_cast<unsigned>(tokens), blocks_for(width, kThreads * pack));
    kernel<<<grid, kThreads, 0, ctx.stream>>>(sorted.row_of, sorted.token, tokens, elements<T>(op.dy),
                                              elements<Accum<T>>(op.d_table), op.d_table.dim(0), width);
    FF_CUDA(cudaGetLastError());
  };
  constexpr int N = kPackOf<T>;
  if (width % N == 0 && packs_aligned({op.dy.raw(), op.d_table.raw()}))
    queue(add_rows<N, T>, N);
  else
    queue(add_rows<1, T>, 1);
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
