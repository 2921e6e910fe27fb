// Growth of the scratch block.
#include "kernels/cpu/context.h"

namespace fivefold::cpu {

std::byte* Scratch::reserve(std::int64_t bytes) {
  constexpr std::int64_t kAlignment = 64;
  if (bytes > bytes_) {
    block_.reset();
    bytes_ = round_up(std::max(bytes, 2 * bytes_), kAlignment);
    block_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<std::size_t>(bytes_))));
    FF_CHECK(block_, "out of host memory: ", bytes_, " bytes of scratch");
  }
  return block_.get();
}

}  // namespace fivefold::cpu
