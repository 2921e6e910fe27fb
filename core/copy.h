// Moves bytes between two tensors, in the order of a stream. Either may lie on the host.
#pragma once
#include "core/tensor.h"

namespace fivefold {

// dst = src: equal byte counts, any shapes. The two may overlap or be the same bytes (then nothing happens).
void copy_bytes(const Tensor& dst, const Tensor& src, Stream& stream);

// The elements behind the first `count` repeat them, as often as there is room. count > 0 where there are
// any.
void repeat_first(const Tensor& tensor, std::int64_t count, Stream& stream);

}  // namespace fivefold
