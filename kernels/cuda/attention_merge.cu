// Joins two partial attention results in max form: no exponential of a positive number, so no overflow. A
// warp a head of a row.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/execute.cuh"

namespace fivefold::cuda {

namespace {

template <class T>
__global__ void merge(Accum<T>* out, Accum<T>* lse, const T* other_out, const Accum<T>* other_lse,
                      std::int64_t rows, std::int64_t dim) {
  using A = Accum<T>;
  const std::int64_t warps = blockDim.x / 32, lane = threadIdx.x % 32;
  for (std::int64_t row = blockIdx.x * warps + threadIdx.x / 32; row < rows; row += gridDim.x * warps) {
    const A mine = lse[row], theirs = other_lse[row];
    if (theirs == -infinity<A>()) continue;  // saw nothing
    const A top = Greatest()(mine, theirs), a = exp_of(mine - top), b = exp_of(theirs - top), sum = a + b;
    const A keep = a / sum, add = b / sum;
    for (std::int64_t i = row * dim + lane; i < (row + 1) * dim; i += 32)
      out[i] = keep * out[i] + add * widen<A>(other_out[i]);
    __syncwarp();  // every lane has read lse
    if (lane == 0) lse[row] = top + log_of(sum);
  }
}

}  // namespace

void execute(const AttentionMerge& op, const CudaContext& ctx) {
  const std::int64_t rows = op.lse.count();
  if (rows == 0) return;
  with_device_float(op.other_out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accum<T>;
    merge<T><<<blocks_for(rows, kThreads / 32), kThreads, 0, ctx.stream>>>(
        elements<A>(op.out), elements<A>(op.lse), elements<T>(op.other_out), elements<A>(op.other_lse), rows,
        op.out.dim(2));
    FF_CUDA(cudaGetLastError());
  });
}

}  // namespace fivefold::cuda
