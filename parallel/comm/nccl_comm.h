// Ranks that are processes, each with a GPU of its own: CUDA tensors travel by NCCL, host tensors and small
// values by the transport it is given (MPI's). Without NCCL in the build no_nccl.cpp takes the place of
// nccl_*.cpp.
#pragma once
#include <chrono>
#include <memory>

#include "parallel/comm/communicator.h"

namespace fivefold {

// False: built without NCCL; make_nccl_transport then throws UserError.
bool nccl_available();
// "2.28.9", of the library that runs; empty without one.
std::string nccl_version();

struct NcclOptions {
  std::chrono::milliseconds deadline_init{300'000};  // to make a communicator with everybody else
};

// The transport of this process, whose tensors lie on `device`. Collective over host's world; `host` outlives
// it. No two ranks may use the same GPU. Group order of the sums is NCCL's: the same bits on all members, not
// those of rank order. One thread at a time may use it.
std::unique_ptr<Transport> make_nccl_transport(Transport& host, int device, const NcclOptions& options = {});

}  // namespace fivefold
