// out[c] += sum over rows r of f(r, c), without atomics: rows are cut into blocks of a size that depends on
// the shape only, each block is summed in a fixed order, and the blocks are added in order.
#pragma once
#include "kernels/cuda/device.cuh"

namespace fivefold::cuda {

constexpr int kSumLanes = 32, kSumRows = 8;   // threads of a block: columns across, rows down
constexpr int kAddLanes = 16, kAddRows = 64;  // of a block that adds partial sums
constexpr std::int64_t kMostRowBlocks = 128;

// partial[block, c] of the rows [block * rows_of_block, ...). Values are Count sums at once, side by side; a
// thread has N neighbouring columns.
template <int N, class A, int Count, class F>
__global__ void column_partials(std::int64_t rows, std::int64_t width, std::int64_t rows_of_block, F f,
                                A* partial) {
  __shared__ A sums[kSumRows][Count * N][kSumLanes];
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.x) * kSumLanes + threadIdx.x) * N;
  const std::int64_t begin = blockIdx.y * rows_of_block, limit = begin + rows_of_block;
  const std::int64_t end = limit < rows ? limit : rows;
  A sum[Count][N] = {};
  if (c < width)
#pragma unroll 4
    for (std::int64_t r = begin + threadIdx.y; r < end; r += kSumRows) f.add(r, c, sum);
#pragma unroll
  for (int i = 0; i < Count; ++i)
#pragma unroll
    for (int l = 0; l < N; ++l) sums[threadIdx.y][i * N + l][threadIdx.x] = sum[i][l];
  __syncthreads();
  if (c >= width) return;
  for (int i = static_cast<int>(threadIdx.y); i < Count * N; i += kSumRows) {
    A total = 0;
    for (int r = 0; r < kSumRows; ++r) total += sums[r][i][threadIdx.x];
    partial[(static_cast<std::int64_t>(blockIdx.y) * Count + i / N) * width + c + i % N] = total;
  }
}

// out[c] += sum over blocks of partial[block * stride + c]: every 64th block by one thread, then the 64.
template <class A>
__global__ void __launch_bounds__(kAddLanes* kAddRows)
    add_partials(const A* partial, std::int64_t blocks, std::int64_t stride, std::int64_t width, A* out) {
  __shared__ A sums[kAddRows][kAddLanes];
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kAddLanes + threadIdx.x;
  A sum = 0;
  if (c < width)
#pragma unroll 8
    for (std::int64_t b = threadIdx.y; b < blocks; b += kAddRows) sum += partial[b * stride + c];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || c >= width) return;
#pragma unroll
  for (int r = 1; r < kAddRows; ++r) sum += sums[r][threadIdx.x];
  out[c] += sum;
}

template <class A>
void queue_add_partials(const A* partial, std::int64_t blocks, std::int64_t stride, std::int64_t width,
                        A* out, const CudaContext& ctx) {
  const auto grid = static_cast<unsigned>(ceil_div(width, kAddLanes));
  add_partials<<<grid, dim3(kAddLanes, kAddRows), 0, ctx.stream>>>(partial, blocks, stride, width, out);
  FF_CUDA(cudaGetLastError());
}

// f.add(row, column, sums) adds to its Count sums of N columns; they go to outs[0 .. Count). N divides the
// width. Takes the scratch block.
template <int N, int Count, class A, class F>
void add_column_sums(std::int64_t rows, std::int64_t width, const F& f, std::array<A*, Count> outs,
                     const CudaContext& ctx) {
  if (rows == 0 || width == 0) return;
  const std::int64_t rows_of_block =
      std::max<std::int64_t>(round_up(ceil_div(rows, kMostRowBlocks), kSumRows), 32);
  const std::int64_t blocks = ceil_div(rows, rows_of_block);
  A* const partial = ctx.room<A>(blocks * Count * width);
  const dim3 grid(static_cast<unsigned>(ceil_div(width, kSumLanes * N)), static_cast<unsigned>(blocks));
  column_partials<N, A, Count>
      <<<grid, dim3(kSumLanes, kSumRows), 0, ctx.stream>>>(rows, width, rows_of_block, f, partial);
  FF_CUDA(cudaGetLastError());
  for (int i = 0; i < Count; ++i)
    queue_add_partials<A>(partial + i * width, blocks, Count * width, width,
                          outs[static_cast<std::size_t>(i)], ctx);
}

}  // namespace fivefold::cuda
