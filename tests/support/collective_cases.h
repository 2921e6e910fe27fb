// What every transport must do, written once: run over threads by test_parallel, over MPI and NCCL by
// test_mpi, with operands on the host or on a CUDA device. Inputs are small integers, exact under any order
// of summation; failures throw, so the transport's own failure path reports them.
#pragma once
#include "parallel/comm/communicator.h"

namespace fivefold::test {

// Where operands lie: on the host without a stream.
struct Place {
  std::shared_ptr<Memory> memory = make_cpu_memory({.poison = true});
  std::shared_ptr<Stream> stream = std::make_shared<CpuStream>();
};

// All operations over all dtypes and sizes (0, odd, several tasks), in place and not, in groups and subsets
// of ranks.
void check_collectives(Transport& transport, const Place& place = {});

// A hash of the bits of sums of random f64, f32 and bf16 numbers, equal on all ranks, and over all transports
// that add in rank order.
std::uint64_t hash_of_random_sums(Transport& transport, const Place& place = {});

}  // namespace fivefold::test
