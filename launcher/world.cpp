// Chooses the transport and starts the ranks.
#include "launcher/world.h"

#include <atomic>

#include "parallel/comm/mpi_comm.h"
#include "parallel/comm/thread_world.h"
#include "parallel/mesh/host_slots.h"

namespace fivefold {

namespace {

bool over_mpi(const WorldOptions& options, const LaunchEnvironment& environment) {
  if (options.transport == TransportName::mpi) return true;
  return options.transport == TransportName::automatic && options.ranks == 0 && environment.mpi;
}

void refuse_contradictions(const WorldOptions& options, const LaunchEnvironment& environment) {
  const int started = environment.world_size.value_or(1);
  if (options.ranks > 0 && (environment.mpi || started > 1))
    throw UserError(str("--ranks makes ranks of one process and cannot be used under ", environment.launcher,
                        ", which started ", started, "; leave out --ranks ", options.ranks,
                        " or the launcher"));
  if (started > 1 && !environment.mpi)
    throw UserError(str(environment.launcher, " started ", started,
                        " processes, but no MPI can join them: start with "
                        "'mpirun -np ",
                        started, "' or 'srun --mpi=pmix'"));
  if (started > 1 && options.transport == TransportName::thread)
    throw UserError(str("parallel.transport=thread joins ranks of one process, but ", environment.launcher,
                        " started ", started, "; use auto or mpi"));
  if (options.ranks > 0 && options.transport == TransportName::mpi)
    throw UserError(str("parallel.transport=mpi joins the processes of mpirun or srun, but --ranks ",
                        options.ranks,
                        " makes ranks of one process; leave out --ranks, or use transport auto or thread"));
  if (options.transport == TransportName::mpi && !mpi_available())
    throw UserError(
        "parallel.transport=mpi needs a build with MPI; this one has none: use thread with --ranks N");
}

RankContext context_of(Transport& transport, const LaunchEnvironment& environment) {
  return {transport, gather_host_slots(transport.world(), host_name(), environment.local_rank)};
}

}  // namespace

int world_size(const WorldOptions& options, const LaunchEnvironment& environment) {
  refuse_contradictions(options, environment);
  return over_mpi(options, environment) ? environment.world_size.value_or(1) : std::max(options.ranks, 1);
}

int run_world(const WorldOptions& options, const std::function<int(RankContext&)>& body) {
  const auto environment = read_launch_environment();
  const int size = world_size(options, environment);
  std::atomic<int> result{0};
  const auto run = [&](Transport& transport) {
    auto context = context_of(transport, environment);
    FF_CHECK_EQ(context.world_size(), size, "ranks that MPI joined against those its launcher announced");
    const int code = body(context);
    for (int seen = result; code > seen && !result.compare_exchange_weak(seen, code);) {
    }
  };
  if (over_mpi(options, environment))
    run_mpi_rank(run, {.keep_all = options.keep_ledgers});
  else
    run_ranks(size, run, {.patience = std::chrono::hours(1), .keep_all = options.keep_ledgers});
  return result;
}

}  // namespace fivefold
