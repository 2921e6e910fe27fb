// The CUDA backend without CUDA headers. In a build without CUDA, making one is an Error.
#pragma once
#include <memory>

#include "core/memory.h"
#include "kernels/backend.h"

namespace fivefold {

// What a backend takes of its memory with its first op that needs room beside its operands, and keeps
// (Tag::workspace). Ops of very long rows may need more.
constexpr std::int64_t kCudaWorkspaceBytes = std::int64_t{32} << 20;

// How the way of a matrix product is chosen among those that the library proposes for its shape: the first,
// so that every run takes the same, or the fastest of eight, which are timed once for each shape. Ways differ
// in the order of their sums, so runs of which each times for itself differ in their last bits.
enum class ProductChoice : std::uint8_t { first, fastest };

// Runs every op on `device`, in the order of the stream that is given with the op and without waiting for it.
// One per rank, used by one thread at a time. Sums have one order: the same operands give the same bits.
// `memory`: for the room above; null: a pool of its own.
std::unique_ptr<Backend> make_cuda_backend(int device, std::shared_ptr<Memory> memory = nullptr,
                                           ProductChoice choice = ProductChoice::first);

}  // namespace fivefold
