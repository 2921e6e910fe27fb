// Rotary embedding of whole heads: a warp a head.
#include "kernels/cuda/execute.cuh"
#include "kernels/cuda/split_qkv.cuh"

namespace fivefold::cuda {

namespace {

template <class T>
__global__ void rotate(const T* x, T* y, std::int64_t count, std::int64_t heads, std::int64_t dim,
                       RotaryTable<Accum<T>> table, Accum<T> direction) {
  using A = Accum<T>;
  extern __shared__ double shared[];
  const std::int64_t warps = blockDim.x / 32, warp = threadIdx.x / 32;
  A* const head = reinterpret_cast<A*>(shared) + warp * dim;
  for (std::int64_t h = blockIdx.x * warps + warp; h < count; h += gridDim.x * warps) {
    elements_of_head(dim, [&](std::int64_t i) { head[i] = widen<A>(x[h * dim + i]); });
    __syncwarp();
    table.turn(h / heads, direction, head);
    elements_of_head(dim, [&](std::int64_t i) { y[h * dim + i] = narrow<T>(head[i]); });
    __syncwarp();
  }
}

}  // namespace

void execute(const Rotary& op, const CudaContext& ctx) {
  with_device_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accum<T>;
    const std::int64_t count = op.x.dim(0) * op.x.dim(1), dim = op.x.dim(2), bytes = dim * sizeof(A);
    if (count * dim == 0) return;
    const RotaryTable<A> table(op.position, op.cos, op.sin, op.style);
    const A direction = op.inverse ? A(-1) : A(1);
    if (turn_in_packs(elements<T>(op.x), elements<T>(op.y), op.x.dim(0), op.x.dim(1), dim, table, direction,
                      ctx))
      return;
    const int warps = warps_with(bytes);
    rotate<T><<<blocks_for(count, warps), 32 * warps, static_cast<std::size_t>(warps * bytes), ctx.stream>>>(
        elements<T>(op.x), elements<T>(op.y), count, op.x.dim(1), dim, table, direction);
    FF_CUDA(cudaGetLastError());
  });
}

}  // namespace fivefold::cuda
