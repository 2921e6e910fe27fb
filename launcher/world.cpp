// Chooses the transport and starts the ranks.
#include "launcher/world.h"

#include <atomic>

#include "core/cuda.h"
#include "launcher/device_choice.h"
#include "parallel/comm/mpi_comm.h"
#include "parallel/comm/nccl_comm.h"
#include "parallel/comm/thread_world.h"
#include "parallel/comm/watch.h"
#include "parallel/mesh/host_slots.h"

namespace fivefold {

namespace {

bool over_mpi(const WorldOptions& options, const LaunchEnvironment& environment) {
  if (options.transport == TransportName::mpi || options.transport == TransportName::nccl) return true;
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
  const bool processes = options.transport == TransportName::mpi || options.transport == TransportName::nccl;
  const auto* name = options.transport == TransportName::mpi ? "mpi" : "nccl";
  if (options.ranks > 0 && processes)
    throw UserError(str("parallel.transport=", name, " joins the processes of mpirun or srun, but --ranks ",
                        options.ranks,
                        " makes ranks of one process; leave out --ranks, or use transport auto or thread"));
  if (processes && !mpi_available())
    throw UserError(str("parallel.transport=", name,
                        " needs a build with MPI; this one has none: use thread with --ranks N"));
}

// What every rank sees, told to all.
std::vector<RankView> gather_views(Communicator& world, const std::vector<HostSlot>& slots) {
  std::string mine;
  for (int device = 0; device < cuda_device_count(); ++device) mine += cuda_device_uuid(device) + '\n';
  const auto told = world.gather_bytes(mine);
  std::vector<RankView> views;
  for (std::size_t r = 0; r < slots.size(); ++r) {
    auto& view = views.emplace_back(RankView{slots[r].host, slots[r].local_rank, {}});
    std::istringstream lines(told[r]);
    for (std::string line; std::getline(lines, line);) view.gpus.push_back(line);
  }
  return views;
}

// A save may take longer than a step.
std::function<std::chrono::milliseconds(const std::string&)> deadlines(const WorldOptions& options) {
  return [step = options.deadline_step, save = options.deadline_save](const std::string& activity) {
    return activity.starts_with("checkpoint/") ? save : step;
  };
}

// Over NCCL where that is possible, else over the MPI transport that is there already.
void run_over(Transport& mpi, const WorldOptions& options, const LaunchEnvironment& environment,
              const std::function<void(RankContext&)>& body) {
  auto slots = gather_host_slots(mpi.world(), host_name(), environment.local_rank);
  const auto views = options.on_gpus ? gather_views(mpi.world(), slots) : std::vector<RankView>{};
  std::unique_ptr<Transport> nccl;
  if (uses_nccl(options.transport, options.on_gpus, nccl_available(), views)) {
    const auto& own = views[static_cast<std::size_t>(mpi.world().rank())];
    nccl = make_nccl_transport(mpi, gpu_of(own.local_rank, static_cast<int>(own.gpus.size())),
                               {.deadline_init = options.deadline_init});
  }
  RankContext context{nccl ? *nccl : mpi, std::move(slots)};
  const Watch watch(context.transport, {.deadline = deadlines(options)});
  body(context);
}

}  // namespace

WorldOptions world_options(const Config& config, int ranks) {
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(1000 * seconds));
  };
  return {.ranks = ranks,
          .transport = config.parallel.transport,
          .on_gpus = wants_gpus(config.train),
          .deadline_init = milliseconds(config.launch.deadline_init_s),
          .deadline_step = milliseconds(config.launch.deadline_step_s),
          .deadline_save = milliseconds(config.launch.deadline_save_s)};
}

int world_size(const WorldOptions& options, const LaunchEnvironment& environment) {
  refuse_contradictions(options, environment);
  return over_mpi(options, environment) ? environment.world_size.value_or(1) : std::max(options.ranks, 1);
}

int run_world(const WorldOptions& options, const std::function<int(RankContext&)>& body) {
  const auto environment = read_launch_environment();
  const int size = world_size(options, environment);
  std::atomic<int> result{0};
  const auto run = [&](RankContext& context) {
    FF_CHECK_EQ(context.world_size(), size, "ranks that MPI joined against those its launcher announced");
    const int code = body(context);
    for (int seen = result; code > seen && !result.compare_exchange_weak(seen, code);) {
    }
  };
  const auto run_thread = [&](Transport& transport) {
    RankContext context{transport, gather_host_slots(transport.world(), host_name(), environment.local_rank)};
    run(context);
  };
  const auto run_process = [&](Transport& transport) { run_over(transport, options, environment, run); };
  if (over_mpi(options, environment))
    run_mpi_rank(run_process, {.keep_all = options.keep_ledgers});
  else
    run_ranks(size, run_thread, {.patience = std::chrono::hours(1), .keep_all = options.keep_ledgers});
  return result;
}

}  // namespace fivefold
