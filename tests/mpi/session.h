// MPI is initialised once per process, so the tests of this program share one session, which main owns.
#pragma once
#include "parallel/comm/mpi_comm.h"

namespace fivefold::test {
MpiSession& session();
}
