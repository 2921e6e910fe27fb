// One side of a comparison of layouts: an engine and its part of every step's batches.
#pragma once
#include "launcher/batches.h"
#include "launcher/config.h"
#include "launcher/engine.h"

namespace fivefold {

// Samples of data.train, or random tokens where the configuration names no file.
BatchSource parity_batches(const Config& config);

class ParitySide {
 public:
  // Fresh weights of run.seed with one-dimensional parameters moved; eps 1e-6. `source` outlives this.
  // Collective.
  ParitySide(const Config& config, Transport& transport, const std::vector<HostSlot>& slots, Device device,
             const BatchSource& source);

  Engine& engine() { return engine_; }
  // Mean loss of a step, and its reduced gradients. Collective.
  double accumulate(std::int64_t step);
  // The gradient norm; the rate is optimizer.lr. Collective.
  double update();

 private:
  const BatchSource& source_;
  double lr_;
  Engine engine_;
  BatchPlan plan_;
  StepLoss loss_;
};

// A side that is the whole world: no parallelism, no recompute, one sequence at a time where the model allows
// it.
class ParityAlone {
 public:
  ParityAlone(const Config& config, DType dtype, Device device, const BatchSource& source);

  ParitySide& side() { return side_; }
  // A whole tensor, row-major.
  std::vector<double> values(const Param& param, Tensor ShardedParam::*member);

 private:
  std::unique_ptr<Transport> transport_;
  ParitySide side_;
};

}  // namespace fivefold
