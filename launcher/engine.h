// The machine that training, parity, generation and benchmarks share: one rank's mesh, memory, model stage
// and optimizer, with a step split into "accumulate gradients" and "update".
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "core/host_copy.h"
#include "data/sampler.h"
#include "launcher/compute_device.h"
#include "model/init.h"
#include "model/optimizer.h"
#include "model/rank_stages.h"
#include "parallel/pipeline/executor.h"
#include "parallel/pipeline/passes.h"

namespace fivefold {

struct EngineOptions {
  ModelConfig model;  // completed
  MeshShape mesh;
  DType dtype = DType::f32;
  Device device;              // of this rank
  int threads = 1;            // CPU threads of this rank
  bool deterministic = true;  // the same bits in every run; false: matrix products in the fastest way found
  StageOptions stage;
  PipelineOptions pipeline;
  AdamWOptions optimizer;
  MemoryOptions memory;
  // The memory of all tensors: a dry run's. Null: the device's own.
  std::function<std::shared_ptr<Memory>()> make_memory;
  // What the ops run through, given the device's own backend: profiling. Null: that backend itself.
  std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>)> wrap_backend;
};

// What the step's forward passes saw, over all ranks. The sum is on its way from the device: asking for it
// waits.
struct StepLoss {
  std::int64_t valid_tokens = 0;                      // targets
  HostCopy loss;                                      // [1]
  double sum() const { return loss.values().at(0); }  // cross entropy summed over targets
  double mean() const { return valid_tokens == 0 ? 0 : sum() / static_cast<double>(valid_tokens); }
};

// What an update did, likewise.
class PendingReport {
 public:
  explicit PendingReport(StepReport known) : known_(known) {}
  explicit PendingReport(HostCopy control) : control_(std::move(control)) {}
  StepReport get() const { return known_ ? *known_ : report_of(control_.values()); }

 private:
  std::optional<StepReport> known_;
  HostCopy control_;
};

class Engine {
 public:
  // Collective over the world: makes the mesh's communicators.
  Engine(EngineOptions options, Transport& transport, const std::vector<HostSlot>& slots);

  // Fresh parameters, zero moments, step 0.
  void initialize(const InitOptions& init);
  // Gradients of the sum over this step's targets divided by `valid_tokens` (of the whole step, all ranks),
  // complete and reduced for work that is queued after. All ranks pass equally many micro-batches.
  // Collective.
  StepLoss accumulate(std::span<const MicroBatch> micro_batches, std::int64_t valid_tokens);
  // Clips and applies the gradients; without targets in the step nothing is applied and the step counts as
  // skipped. Does not wait for the device.
  PendingReport begin_update(const StepLoss& loss, double lr);
  StepReport update(const StepLoss& loss, double lr) { return begin_update(loss, lr).get(); }
  // Loss without gradients. Collective.
  StepLoss evaluate(std::span<const MicroBatch> micro_batches, std::int64_t valid_tokens);
  // Logits of the micro-batch's rows on this context rank, row-major [rows, vocabulary], on every rank.
  // Collective.
  std::vector<double> logits(const MicroBatch& micro_batch);

  // Sum over the world of values that only one tp and pp rank of each data rank counts, and the largest flag
  // of all ranks. Between hosts: the device goes on working.
  struct Agreement {
    std::int64_t sum = 0;
    bool flag = false;
  };
  Agreement agree(std::int64_t value, bool flag);

  const Run& run() const { return *run_; }
  const DeviceMesh& mesh() const { return *mesh_; }
  const EngineOptions& options() const { return options_; }
  RankStages& stages() { return *stages_; }
  const ParamTable& table() const { return stages_->table(); }
  const PipelinePlan& pipeline() const { return plan_; }
  Optimizer& optimizer() { return *optimizer_; }
  Memory& memory() { return *device_.memory; }
  Backend& backend() { return *device_.backend; }
  std::span<ShardedParam* const> params() const { return params_; }
  // Shards were written from outside (a load): weights are collected again before the next use.
  void shards_changed();

 private:
  TokenRows rows_of(const MicroBatch& micro_batch) const;
  StepLoss total_loss(std::int64_t valid_tokens);
  PendingReport skip_update();
  const Schedule& schedule_for(int micro_batches, bool gradient);
  void run_micro_batches(std::span<const MicroBatch> micro_batches, const LossRequest& request);
  Tensor run_to_logits(const MicroBatch& micro_batch);

  EngineOptions options_;
  ComputeDevice device_;
  std::unique_ptr<DeviceMesh> mesh_;
  std::optional<Run> run_;
  PipelinePlan plan_;
  std::optional<RankStages> stages_;
  std::map<std::pair<int, bool>, Schedule> schedules_;  // by (micro-batches, with gradients)
  std::optional<Optimizer> optimizer_;
  std::vector<ShardedParam*> params_;
  Tensor loss_;  // [1] f64
};

}  // namespace fivefold
