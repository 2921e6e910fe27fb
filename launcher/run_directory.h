// Where a run keeps its files: dir/name under fixed names that scripts rely on.
#pragma once
#include <filesystem>

#include "launcher/config.h"

namespace fivefold {

struct RunDirectory {
  std::filesystem::path root;
  std::filesystem::path metrics() const { return root / "metrics.jsonl"; }
  std::filesystem::path config() const { return root / "config.resolved.conf"; }
  std::filesystem::path checkpoints() const { return root / "checkpoints"; }
  std::filesystem::path log(int world_rank) const;    // log/rank_00000.log
  std::filesystem::path trace(int world_rank) const;  // trace/rank_00000.json
};

RunDirectory run_directory(const RunConfig& run);

}  // namespace fivefold
