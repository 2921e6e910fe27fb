// Elements of one floating dtype as another.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/types.h"

namespace fivefold {

constexpr bool is_floating(DType t) { return t == DType::f64 || t == DType::f32 || t == DType::bf16; }

// Copies, or converts between f64, f32 and bf16 (to nearest; f64 reaches bf16 by way of f32). Throws
// UserError for a conversion from or to another dtype.
void convert_elements(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count);

}  // namespace fivefold
