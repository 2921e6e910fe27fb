// Names inside a run directory.
#include "launcher/run_directory.h"

#include <cstdio>

namespace fivefold {

std::filesystem::path RunDirectory::log(int world_rank) const {
  char name[32];
  std::snprintf(name, sizeof name, "rank_%05d.log", world_rank);
  return root / "log" / name;
}

RunDirectory run_directory(const RunConfig& run) { return {std::filesystem::path(run.dir) / run.name}; }

}  // namespace fivefold
