// The ranks of a run: processes of mpirun or srun, threads of this process (--ranks N), or one rank alone.
// Same code behind.
#pragma once
#include <chrono>
#include <functional>
#include <vector>

#include "launcher/config.h"
#include "parallel/comm/launch_environment.h"
#include "parallel/mesh/mesh.h"

namespace fivefold {

// What one rank is given to start with.
struct RankContext {
  Transport& transport;
  std::vector<HostSlot> slots;  // of every world rank
  int world_rank() const { return transport.world().rank(); }
  int world_size() const { return transport.world().size(); }
};

struct WorldOptions {
  int ranks = 0;  // --ranks; 0: not given
  TransportName transport = TransportName::automatic;
  bool keep_ledgers = false;  // remember every transfer (tests)
  bool on_gpus = false;       // ranks that see a GPU compute on it (wants_gpus)
  // launch.deadline_*, of ranks that are processes: longest time until they are joined, and until a transfer
  // ends in a step and in a save.
  std::chrono::milliseconds deadline_init{300'000}, deadline_step{600'000}, deadline_save{1'800'000};
};

// `ranks`: --ranks, 0 where it is not given.
WorldOptions world_options(const Config& config, int ranks);

// How many ranks the run will have; known before anything starts. Throws UserError where --ranks, the
// transport and the launcher contradict each other, or the launcher started several processes that MPI cannot
// join.
int world_size(const WorldOptions& options, const LaunchEnvironment& environment);

// Runs `body` on every rank of this process and returns the largest of their results. A failure on any rank
// ends all of them and comes out of here (threads) or ends the job (MPI).
int run_world(const WorldOptions& options, const std::function<int(RankContext&)>& body);

}  // namespace fivefold
