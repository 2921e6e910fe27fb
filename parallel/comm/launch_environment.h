// What a launcher left in the environment: known before MPI is started, so that a device can be chosen first.
#pragma once
#include <functional>
#include <optional>
#include <string>

namespace fivefold {

struct LaunchEnvironment {
  // Whether an MPI library would find its world: under mpirun, or under srun with a PMI that sets variables.
  bool mpi = false;
  std::string launcher;  // "mpirun", "srun" or empty
  // As the launcher counts; absent where it does not say. A process started alone has none of them.
  std::optional<int> world_size, world_rank, local_rank, local_size;
};

// `variable(name)` is getenv or a test's table: null for an unset variable. Values that are not numbers count
// as unset.
LaunchEnvironment read_launch_environment(const std::function<const char*(const char*)>& variable);
LaunchEnvironment read_launch_environment();  // of this process

std::string host_name();  // gethostname

}  // namespace fivefold
