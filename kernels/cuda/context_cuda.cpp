// Device memory of the scratch blocks.
#include "kernels/cuda/context.cuh"
#include "kernels/cuda_backend.h"

namespace fivefold::cuda {

void* Scratch::reserve(std::int64_t bytes, cudaStream_t stream) {
  auto& block = blocks_[stream];
  if (block && bytes <= block->bytes()) return block->data();
  FF_CHECK(home_ && home_->native() == stream, "room is asked for on another stream than the op's");
  block = {};
  const auto size = bytes <= kCudaWorkspaceBytes ? kCudaWorkspaceBytes : round_up(bytes + bytes / 4, 1 << 16);
  block = memory_->allocate(size, Tag::workspace, *home_);
  return block->data();
}

}  // namespace fivefold::cuda
