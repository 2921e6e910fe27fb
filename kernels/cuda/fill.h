// Fill on a CUDA device: the smallest kernel, which shows that the toolchain, the architecture flags and the
// stream seam work.
#pragma once
#include "core/tensor.h"

namespace fivefold::cuda {

// x (f32, on the stream's device) = value.
void fill(const Tensor& x, float value, Stream& stream);

}  // namespace fivefold::cuda
