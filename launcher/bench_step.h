// `fivefold bench step`: times training steps of a configuration on random tokens; no data files.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "data/micro_batch.h"
#include "launcher/config.h"
#include "launcher/op_profile.h"
#include "launcher/world.h"

namespace fivefold {

struct BenchStepOptions {
  std::int64_t steps = 20, warmup = 3;
  bool profile = false;  // time every op too, in as many further steps
};

struct BenchStepReport {
  std::vector<double> seconds;           // of each timed step, ascending
  std::string device;                    // of rank 0
  std::optional<double> peak_flops;      // of all ranks together, where their devices' is known
  std::int64_t tokens = 0;               // of one step, all ranks
  double model_flops = 0;                // of one step, all ranks
  double loss = 0;                       // of the last step
  MemoryReport memory;                   // of this rank
  OpProfile profile;                     // of this rank, over all profiled steps
  std::vector<double> profiled_seconds;  // of each of them

  double median() const { return seconds[seconds.size() / 2]; }
};

// Micro-batch of random tokens below `vocab` that every layout sees alike: sample i's token t is f(i, t). The
// first `real` of `count` sequences have targets, the others are padding.
MicroBatch random_batch(std::int64_t first_sample, std::int64_t count, std::int64_t real,
                        std::int64_t sequence, std::int64_t vocab);

// Forward, backward, reduction and update, as the trainer takes them; the rate is optimizer.lr throughout.
// Collective.
BenchStepReport bench_step(const Config& config, RankContext& context, const BenchStepOptions& options);

// What the command prints.
std::string to_text(const BenchStepReport& report);

}  // namespace fivefold
