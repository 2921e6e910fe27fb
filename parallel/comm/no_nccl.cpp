// The build without NCCL.
#include "parallel/comm/nccl_comm.h"

namespace fivefold {

bool nccl_available() { return false; }
std::string nccl_version() { return {}; }
std::unique_ptr<Transport> make_nccl_transport(Transport&, int, const NcclOptions&) {
  throw UserError(
      "this program was built without NCCL: use parallel.transport=mpi, or install NCCL and build again");
}

}  // namespace fivefold
