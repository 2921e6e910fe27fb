// out[c] += sum over rows r of f(r, c), without atomics: rows are cut into blocks of a size that depends on
// the shape only, each block is summed in a fixed order, and the blocks are added in order.
#pragma once
#include "kernels/cuda/device.cuh"

namespace fivefold::cuda {

constexpr int kSumLanes = 32, kSumRows = 8;  // threads of a block: columns across, rows down
constexpr std::int64_t kMostRowBlocks = 64;

// partial[block, c] of the rows [block * rows_of_block, ...). Values are Count sums at once, side by side.
template <class A, int Count, class F>
__global__ void column_partials(std::int64_t rows, std::int64_t width, std::int64_t rows_of_block, F f,
                                A* partial) {
  __shared__ A sums[Count][kSumRows][kSumLanes];
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kSumLanes + threadIdx.x;
  const std::int64_t begin = blockIdx.y * rows_of_block, limit = begin + rows_of_block;
  const std::int64_t end = limit < rows ? limit : rows;
  A sum[Count] = {};
  if (c < width)
    for (std::int64_t r = begin + threadIdx.y; r < end; r += kSumRows) f(r, c, sum);
  for (int i = 0; i < Count; ++i) sums[i][threadIdx.y][threadIdx.x] = sum[i];
  __syncthreads();
  if (threadIdx.y >= Count || c >= width) return;
  A total = 0;
  for (int r = 0; r < kSumRows; ++r) total += sums[threadIdx.y][r][threadIdx.x];
  partial[(static_cast<std::int64_t>(blockIdx.y) * Count + threadIdx.y) * width + c] = total;
}

// out[c] += sum over blocks of partial[block * stride + c]: every eighth block by one thread, then the eight.
template <class A>
__global__ void add_partials(const A* partial, std::int64_t blocks, std::int64_t stride, std::int64_t width,
                             A* out) {
  __shared__ A sums[kSumRows][kSumLanes];
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kSumLanes + threadIdx.x;
  A sum = 0;
  if (c < width)
    for (std::int64_t b = threadIdx.y; b < blocks; b += kSumRows) sum += partial[b * stride + c];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || c >= width) return;
  for (int r = 1; r < kSumRows; ++r) sum += sums[r][threadIdx.x];
  out[c] += sum;
}

template <class A>
void queue_add_partials(const A* partial, std::int64_t blocks, std::int64_t stride, std::int64_t width,
                        A* out, const CudaContext& ctx) {
  const auto grid = static_cast<unsigned>(ceil_div(width, kSumLanes));
  add_partials<<<grid, dim3(kSumLanes, kSumRows), 0, ctx.stream>>>(partial, blocks, stride, width, out);
  FF_CUDA(cudaGetLastError());
}

// f(row, column, sums) adds to its Count sums; they go to outs[0 .. Count). Takes the scratch block.
template <int Count, class A, class F>
void add_column_sums(std::int64_t rows, std::int64_t width, const F& f, std::array<A*, Count> outs,
                     const CudaContext& ctx) {
  if (rows == 0 || width == 0) return;
  const std::int64_t rows_of_block =
      std::max<std::int64_t>(round_up(ceil_div(rows, kMostRowBlocks), kSumRows), 32);
  const std::int64_t blocks = ceil_div(rows, rows_of_block);
  A* const partial = ctx.room<A>(blocks * Count * width);
  const dim3 grid(static_cast<unsigned>(ceil_div(width, kSumLanes)), static_cast<unsigned>(blocks));
  column_partials<A, Count>
      <<<grid, dim3(kSumLanes, kSumRows), 0, ctx.stream>>>(rows, width, rows_of_block, f, partial);
  FF_CUDA(cudaGetLastError());
  for (int i = 0; i < Count; ++i)
    queue_add_partials<A>(partial + i * width, blocks, Count * width, width,
                          outs[static_cast<std::size_t>(i)], ctx);
}

}  // namespace fivefold::cuda
