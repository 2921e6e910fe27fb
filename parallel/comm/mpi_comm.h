// Ranks that are processes started by mpirun or srun. Moves host memory; sums have the same bits as over
// threads (rank_sum.h). Without MPI in the build no_mpi.cpp takes the place of the mpi_*.cpp files.
#pragma once
#include <functional>
#include <memory>

#include "parallel/comm/communicator.h"

namespace fivefold {

// False: built without MPI; everything below then throws UserError.
bool mpi_available();

// MPI between its initialisation and its end. One per process; made before any transport, destroyed after all
// of them. Destroyed by an exception it ends all processes of the job (MPI_Abort), since the others may be
// waiting for this one.
class MpiSession {
 public:
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  int world_rank() const { return world_rank_; }
  int world_size() const { return world_size_; }
  // Ends all processes of the job; mpirun's exit code becomes `exit_code`.
  [[noreturn]] void abort(int exit_code) noexcept;

 private:
  int world_rank_ = 0, world_size_ = 1;
  int unwinding_;
};

struct MpiOptions {
  std::size_t ledger_capacity = 256;
  bool keep_all = false;  // the ledger remembers every transfer
  std::int64_t message_bytes = std::int64_t{1}
                               << 30;  // longer operands travel in several messages (MPI counts are 32 bits)
  std::shared_ptr<Memory> memory;      // for staging; null: an own host pool
};

// The transport of this process. `session` outlives it. One thread at a time may use it.
std::unique_ptr<Transport> make_mpi_transport(const MpiSession& session, const MpiOptions& options = {});

// Counterpart of run_ranks: runs `body` on this process's rank. When it throws, prints "rank R: what" to
// standard error and ends the job with exit code 2 for a UserError, else 1. (When all ranks fail alike, rank
// 0 speaks and ends the others first.)
void run_mpi_rank(const std::function<void(Transport&)>& body, const MpiOptions& options = {});

}  // namespace fivefold
