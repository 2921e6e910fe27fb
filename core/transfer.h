// Small values between the host and a device: tables, token ids, control scalars, things that tests and tools
// look at. Blocking; bulk data has its own paths.
#pragma once
#include <span>
#include <vector>

#include "core/tensor.h"

namespace fivefold {

// dst = values converted to its dtype (floating or i16; bf16 by way of f32). values.size() == dst.count().
void write(const Tensor& dst, std::span<const double> values, Stream& stream);
// dst (i32) = values.
void write(const Tensor& dst, std::span<const std::int32_t> values, Stream& stream);
// The elements of a floating, i32 or i16 tensor as f64, row-major.
std::vector<double> to_host(const Tensor& src, Stream& stream);

Tensor upload(Memory& memory, std::span<const double> values, Shape shape, DType dtype, Tag tag,
              Stream& stream);
Tensor upload(Memory& memory, std::span<const std::int32_t> values, Shape shape, Tag tag, Stream& stream);

}  // namespace fivefold
