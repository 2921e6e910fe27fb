// Moves bytes between two tensors, in the order of a stream. Either may lie on the host.
#pragma once
#include "core/tensor.h"

namespace fivefold {

// dst = src: equal byte counts, any shapes. The two may overlap or be the same bytes (then nothing happens).
void copy_bytes(const Tensor& dst, const Tensor& src, Stream& stream);

}  // namespace fivefold
