// Open MPI's and Slurm's variables. The batch shell of a Slurm job also has SLURM_PROCID, so a step is known
// by SLURM_STEP_NUM_TASKS, which only srun sets.
#include "parallel/comm/launch_environment.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "core/error.h"

namespace fivefold {

namespace {

using Variable = std::function<const char*(const char*)>;

std::optional<int> number(const Variable& variable, const char* name) {
  const char* text = variable(name);
  if (!text) return std::nullopt;
  const char* end = text + std::strlen(text);
  int value = 0;
  const auto parsed = std::from_chars(text, end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

LaunchEnvironment under_mpirun(const Variable& variable) {
  return {true,
          "mpirun",
          number(variable, "OMPI_COMM_WORLD_SIZE"),
          number(variable, "OMPI_COMM_WORLD_RANK"),
          number(variable, "OMPI_COMM_WORLD_LOCAL_RANK"),
          number(variable, "OMPI_COMM_WORLD_LOCAL_SIZE")};
}

LaunchEnvironment under_srun(const Variable& variable) {
  const bool pmi = variable("PMIX_RANK") || variable("PMI_RANK");
  return {pmi,
          "srun",
          number(variable, "SLURM_STEP_NUM_TASKS"),
          number(variable, "SLURM_PROCID"),
          number(variable, "SLURM_LOCALID"),
          std::nullopt};
}

}  // namespace

LaunchEnvironment read_launch_environment(const Variable& variable) {
  if (variable("OMPI_COMM_WORLD_SIZE")) return under_mpirun(variable);
  if (variable("SLURM_STEP_NUM_TASKS")) return under_srun(variable);
  return {};
}

LaunchEnvironment read_launch_environment() {
  return read_launch_environment([](const char* name) -> const char* { return std::getenv(name); });
}

std::string host_name() {
  std::array<char, 256> name{};
  FF_CHECK(gethostname(name.data(), name.size() - 1) == 0, "gethostname failed");
  return name.data();
}

}  // namespace fivefold
