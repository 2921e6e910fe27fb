// The build without MPI.
#include <cstdlib>

#include "parallel/comm/mpi_comm.h"

namespace fivefold {

namespace {

[[noreturn]] void refuse() {
  throw UserError(
      "this program was built without MPI; run N ranks in one process with --ranks N, or install MPI and "
      "build again");
}

}  // namespace

bool mpi_available() { return false; }
MpiSession::MpiSession() : unwinding_(0) { refuse(); }
MpiSession::~MpiSession() = default;
void MpiSession::abort(int exit_code) noexcept { std::exit(exit_code); }
std::unique_ptr<Transport> make_mpi_transport(const MpiSession&, const MpiOptions&) { refuse(); }
void run_mpi_rank(const std::function<void(Transport&)>&, const MpiOptions&) { refuse(); }

}  // namespace fivefold
