// The stages of one rank with the parameters they share, as the pipeline executor drives them.
#pragma once
#include "model/pipeline_plan.h"
#include "model/stage.h"
#include "parallel/pipeline/stage.h"

namespace fivefold {

// One stage in the executor's words. Rows and loss of a step are given before it runs.
class ModelStage final : public PipelineStage {
 public:
  ModelStage(const Run& run, Stage& stage) : run_(run), stage_(stage) {}
  void begin_step(std::span<const TokenRows> rows, const LossRequest& request) {
    rows_ = rows, request_ = request;
  }

  Carried forward(int micro_batch, Carried input) override;
  Carried backward(int micro_batch, Carried d_output) override;
  Carried backward_input(int micro_batch, Carried d_output) override;
  void backward_weight(int micro_batch) override;
  // Starts the step's reductions, but for units with a parameter that another rank's stage shares: those
  // would wait for a rank that may be waiting for this one.
  void reduce_grads(int micro_batch) override;

 private:
  const Run& run_;
  Stage& stage_;
  std::span<const TokenRows> rows_;
  LossRequest request_;
};

class RankStages {
 public:
  // `run` outlives the stages.
  RankStages(const Run& run, const ModelConfig& config, const PipelinePlan& plan,
             const StageOptions& options);

  const ParamTable& table() const { return *table_; }
  std::vector<std::unique_ptr<Stage>>& stages() { return stages_; }  // ascending
  std::vector<FsdpUnit*> units();
  std::vector<ShardedParam*> sharded();  // in global parameter order
  // For run_pipeline.
  std::vector<PipelineStage*> begin_step(std::span<const TokenRows> rows, const LossRequest& request);

 private:
  void mark_tied(const ModelConfig& config, const PipelinePlan& plan, int pp_rank);
  std::unique_ptr<ParamTable> table_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<std::unique_ptr<ModelStage>> driven_;
};

}  // namespace fivefold
