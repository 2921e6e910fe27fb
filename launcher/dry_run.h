// A training step of one rank of any world, run by the engine itself with ops that do nothing, memory without
// bytes and transfers to nobody: what it allocates and sends is what a real rank does, and takes milliseconds
// to learn.
#pragma once
#include "launcher/config.h"
#include "launcher/engine.h"

namespace fivefold {

struct DryRun {
  MemoryReport memory;                      // of the rank's tensors, over construction and one step
  std::map<std::string, GroupTotals> sent;  // by the names of its groups, in one step
};

// What a step is made of: `batch` again and again.
struct DryStep {
  MicroBatch batch;  // as a rank's model takes it: cut for context, padded
  std::int64_t micro_batches = 1;
  std::int64_t backend_bytes = 0;  // that the backend takes for itself
};
// The step of a configuration on the ranks of context rank 0.
DryStep dry_step(const Config& config, const MeshShape& mesh);

// `options` with what dry runs of many ranks can share.
EngineOptions dry_options(EngineOptions options);
// Runs one step as mesh position `position`.
DryRun dry_run(const EngineOptions& options, const DryStep& step, int position);

}  // namespace fivefold
