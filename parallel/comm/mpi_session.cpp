// The life of MPI in this process, and how a failing rank takes the whole job with it.
#include <mpi.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "parallel/comm/mpi_check.h"
#include "parallel/comm/mpi_comm.h"

namespace fivefold {

bool mpi_available() { return true; }

void fail_mpi(const char* file, int line, std::string_view call, int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  fail(file, line, call,
       str("MPI error ", code, ": ", std::string_view(text.data(), static_cast<std::size_t>(length))));
}

MpiSession::MpiSession() : unwinding_(std::uncaught_exceptions()) {
  int already = 0, provided = 0;
  FF_MPI(MPI_Initialized(&already));
  FF_CHECK(!already, "MPI is initialised once per process");
  FF_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
  FF_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  FF_CHECK(provided >= MPI_THREAD_FUNNELED, "this MPI library knows no threads");
  FF_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &world_rank_));
  FF_MPI(MPI_Comm_size(MPI_COMM_WORLD, &world_size_));
}

MpiSession::~MpiSession() {
  if (std::uncaught_exceptions() > unwinding_)
    abort(1);
  else
    MPI_Finalize();
}

void MpiSession::abort(int exit_code) noexcept {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::abort();  // MPI_Abort does not return
}

namespace {

// A mistake that all ranks notice is told once: the others give rank 0 the time to end them. mpirun does so
// with TERM, for which a handler may be installed that only takes note, and a second later with KILL.
void let_lower_ranks_speak(int world_rank) {
  std::signal(SIGTERM, SIG_DFL);
  if (world_rank > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1200 + 50 * std::min(world_rank, 15)));
}

}  // namespace

void run_mpi_rank(const std::function<void(Transport&)>& body, const MpiOptions& options) {
  MpiSession session;
  const auto end_job = [&](const char* what, int exit_code) {
    let_lower_ranks_speak(session.world_rank());
    std::fprintf(stderr, "rank %d: %s\n", session.world_rank(), what);
    std::fflush(stderr);
    session.abort(exit_code);
  };
  try {
    const auto transport = make_mpi_transport(session, options);
    body(*transport);
  } catch (const UserError& error) {
    end_job(error.what(), 2);
  } catch (const std::exception& error) {
    end_job(error.what(), 1);
  }
}

}  // namespace fivefold
