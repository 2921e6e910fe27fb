// One thread an element, grid-stride, 64-bit indices.
#include "core/cuda_check.h"
#include "kernels/cuda/fill.h"

namespace fivefold::cuda {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 4096;

__global__ void fill_kernel(float* x, std::int64_t n, float value) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
    x[i] = value;
}

}  // namespace

void fill(const Tensor& x, float value, Stream& stream) {
  if (x.count() == 0) return;
  const auto blocks = static_cast<unsigned>(std::min(ceil_div(x.count(), kThreads), kMaxBlocks));
  fill_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream.native())>>>(x.data<float>(), x.count(),
                                                                                   value);
  FF_CUDA(cudaGetLastError());
}

}  // namespace fivefold::cuda
