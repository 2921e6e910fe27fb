// Names inside a run directory.
#include "launcher/run_directory.h"

#include <cstdio>

namespace fivefold {

namespace {

std::string file_of(int world_rank, const char* extension) {
  char name[40];
  std::snprintf(name, sizeof name, "rank_%05d.%s", world_rank, extension);
  return name;
}

}  // namespace

std::filesystem::path RunDirectory::log(int world_rank) const {
  return root / "log" / file_of(world_rank, "log");
}

std::filesystem::path RunDirectory::trace(int world_rank) const {
  return root / "trace" / file_of(world_rank, "json");
}

RunDirectory run_directory(const RunConfig& run) { return {std::filesystem::path(run.dir) / run.name}; }

}  // namespace fivefold
