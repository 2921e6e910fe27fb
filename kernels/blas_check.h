// Start-up check of a backend's matrix products: old BLAS builds are wrong on some newer processors.
#pragma once
#include "kernels/backend.h"

namespace fivefold {

// Compares gemm in f64, f32 and bf16, in all transpositions and on a few odd shapes, with a plain loop.
// Throws Error that names dtype, shape, element and both values on the first difference. Takes about a
// millisecond.
void check_blas(Backend& backend, Memory& memory, Stream& stream);

}  // namespace fivefold
