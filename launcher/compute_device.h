// What one rank computes on: the CPU or a CUDA device, with everything that is made on it once.
#pragma once
#include <memory>

#include "core/memory.h"
#include "kernels/backend.h"

namespace fivefold {

struct ComputeDevice {
  std::shared_ptr<Memory> memory;  // of tensors
  std::shared_ptr<Memory> host;    // what is copied to and from the device without waiting
  std::unique_ptr<Stream> stream;  // outlives the tensors
  std::unique_ptr<Backend> backend;
};

// `threads`: of the CPU ops. `deterministic`: a GPU's matrix products are taken in one way in every run, not
// in the fastest. Throws UserError for a device that is not there.
ComputeDevice open_device(Device device, int threads, MemoryOptions memory, bool deterministic = true);

}  // namespace fivefold
