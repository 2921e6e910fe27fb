// Builds a rank's stages and adapts them to the executor.
#include "model/rank_stages.h"

#include <algorithm>

namespace fivefold {

Carried ModelStage::forward(int micro_batch, Carried input) {
  return {
      stage_.forward(run_, micro_batch, rows_[static_cast<std::size_t>(micro_batch)], input.rows, request_)};
}

Carried ModelStage::backward(int micro_batch, Carried d_output) {
  return {stage_.backward(run_, micro_batch, d_output.rows)};
}

Carried ModelStage::backward_input(int micro_batch, Carried d_output) {
  return {stage_.backward_input(run_, micro_batch, d_output.rows)};
}

void ModelStage::backward_weight(int micro_batch) { stage_.backward_weight(run_, micro_batch); }

void ModelStage::reduce_grads(int) {
  for (auto& unit : stage_.units())
    if (!unit.shared_across()) unit.reduce_grads(run_);
}

RankStages::RankStages(const Run& run, const ModelConfig& config, const PipelinePlan& plan,
                       const StageOptions& options)
    : table_(make_param_table(config, run.mesh.layout(), run.mesh.position())) {
  const int pp_rank = run.mesh.coordinate(Axis::pp);
  mark_tied(config, plan, pp_rank);
  for (const int s : plan.map.stages_of(pp_rank)) {
    const auto& layers = plan.split[static_cast<std::size_t>(s)];
    Stage* embedding = !stages_.empty() && stages_.front()->plan().embeds ? stages_.front().get() : nullptr;
    stages_.push_back(std::make_unique<Stage>(run, config,
                                              StagePlan{.first_block = layers.first,
                                                        .end_block = layers.end,
                                                        .embeds = layers.embeds,
                                                        .ends = layers.ends},
                                              options, *table_, embedding));
    driven_.push_back(std::make_unique<ModelStage>(run, *stages_.back()));
  }
}

void RankStages::mark_tied(const ModelConfig& config, const PipelinePlan& plan, int pp_rank) {
  const auto tied = tied_ranks(config, plan);
  if (!tied || (pp_rank != tied->first && pp_rank != tied->last)) return;
  auto* table = table_->find("embed.weight");
  table->tied = !tied->across();
  table->tied_across = tied->across();
}

std::vector<FsdpUnit*> RankStages::units() {
  std::vector<FsdpUnit*> out;
  for (auto& stage : stages_)
    for (auto& unit : stage->units()) out.push_back(&unit);
  return out;
}

std::vector<ShardedParam*> RankStages::sharded() {
  std::vector<ShardedParam*> out;
  for (auto* unit : units())
    for (auto& p : unit->params()) out.push_back(&p);
  std::sort(out.begin(), out.end(), [](auto* a, auto* b) { return a->param->index < b->param->index; });
  return out;
}

std::vector<PipelineStage*> RankStages::begin_step(std::span<const TokenRows> rows,
                                                   const LossRequest& request) {
  std::vector<PipelineStage*> out;
  for (auto& stage : driven_) {
    stage->begin_step(rows, request);
    out.push_back(stage.get());
  }
  return out;
}

}  // namespace fivefold
