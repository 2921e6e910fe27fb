// The CUDA backend without CUDA headers. In a build without CUDA, making one is an Error.
#pragma once
#include <memory>

#include "kernels/backend.h"

namespace fivefold {

// Runs every op on `device`, in the order of the stream that is given with the op and without waiting for it.
// One per rank, used by one thread at a time. Sums have one order: the same operands give the same bits.
std::unique_ptr<Backend> make_cuda_backend(int device);

}  // namespace fivefold
