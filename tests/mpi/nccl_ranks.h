// NCCL among the processes of a test.
#pragma once
#include <cstdlib>
#include <memory>

#include "core/cuda.h"
#include "parallel/comm/nccl_comm.h"

namespace fivefold::test {

// The GPUs there are, in turn.
inline int shared_device(int rank) { return rank % cuda_device_count(); }

// NCCL wants a GPU for each rank of a host. Where there are fewer, it is told that each rank is a host of its
// own, so that the ranks share a GPU and talk over sockets of this one: slower, but the same code of ours.
inline std::unique_ptr<Transport> make_nccl(Transport& mpi) {
  const int rank = mpi.world().rank();
  if (cuda_device_count() < mpi.world().size()) {
    setenv("NCCL_HOSTID", str("rank", rank).c_str(), 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_IB_DISABLE", "1", 1);
  }
  return make_nccl_transport(mpi, shared_device(rank));
}

}  // namespace fivefold::test
