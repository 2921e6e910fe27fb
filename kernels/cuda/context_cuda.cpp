// Device memory of the scratch blocks.
#include "core/cuda_check.h"
#include "core/types.h"
#include "kernels/cuda/context.cuh"

namespace fivefold::cuda {

Scratch::~Scratch() {
  for (const auto& [stream, block] : blocks_) cudaFree(block.data);
}

void* Scratch::reserve(std::int64_t bytes, cudaStream_t stream) {
  Block& block = blocks_[stream];
  if (bytes <= block.bytes) return block.data;
  if (block.data) FF_CUDA(cudaFreeAsync(block.data, stream));
  block = {};
  const std::int64_t size = round_up(bytes + bytes / 4, 1 << 16);
  FF_CUDA(cudaMallocAsync(&block.data, static_cast<std::size_t>(size), stream));
  block.bytes = size;
  return block.data;
}

}  // namespace fivefold::cuda
