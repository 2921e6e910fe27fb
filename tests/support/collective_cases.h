// What every transport must do, written once: run over threads by test_parallel and over MPI by test_mpi.
// Inputs are small integers, exact under any order of summation; failures throw, so the transport's own
// failure path reports them.
#pragma once
#include "parallel/comm/communicator.h"

namespace fivefold::test {

// All operations over all dtypes and sizes (0, odd, several tasks), in place and not, in groups and subsets
// of ranks.
void check_collectives(Transport& transport);

// A hash of the bits of sums of random f32 and bf16 numbers, equal on all ranks and over all host transports.
std::uint64_t hash_of_random_sums(Transport& transport);

}  // namespace fivefold::test
