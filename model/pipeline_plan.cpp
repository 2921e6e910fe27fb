// Costs from the parameter list, maps from the schedule's kind.
#include "model/pipeline_plan.h"

#include <algorithm>

namespace fivefold {

std::optional<TiedRanks> tied_ranks(const ModelConfig& config, const PipelinePlan& plan) {
  if (!config.tie_embeddings) return std::nullopt;
  return TiedRanks{plan.map.rank_of.front(), plan.map.rank_of.back()};
}

std::vector<int> pp_ranks_of(const ParamInfo& info, const ModelConfig& config, const PipelinePlan& plan) {
  const auto& rank_of = plan.map.rank_of;
  if (info.block >= 0) {
    const auto holds = [&](const StageLayers& s) { return s.first <= info.block && info.block < s.end; };
    const auto stage = std::find_if(plan.split.begin(), plan.split.end(), holds) - plan.split.begin();
    return {rank_of[static_cast<std::size_t>(stage)]};
  }
  if (info.kind == ParamKind::position) return {rank_of.front()};
  if (info.kind != ParamKind::embedding) return {rank_of.back()};
  const auto tied = tied_ranks(config, plan);
  if (!tied || !tied->across()) return {rank_of.front()};
  return {std::min(tied->first, tied->last), std::max(tied->first, tied->last)};
}

LayerCosts layer_costs(const ModelConfig& config) {
  LayerCosts costs{.blocks = std::vector<double>(static_cast<std::size_t>(config.layers), 0.0)};
  for (const auto& info : parameter_list(config)) {
    if (info.block < 0 || info.shape.rank() < 2) continue;
    const bool expert = info.kind == ParamKind::expert_gate_up || info.kind == ParamKind::expert_down;
    const double used =
        expert ? static_cast<double>(config.experts_per_token) / static_cast<double>(config.experts) : 1.0;
    costs.blocks[static_cast<std::size_t>(info.block)] += used * static_cast<double>(info.shape.count());
  }
  costs.head = static_cast<double>(config.vocab) * static_cast<double>(config.hidden);
  return costs;
}

PipelinePlan plan_pipeline(const ModelConfig& config, int pp, const PipelineOptions& options) {
  PipelinePlan plan{
      .map = options.schedule == ScheduleKind::zb_v ? vee_map(pp) : loop_map(pp, options.chunks),
      .split = {}};
  plan.split = split_by_cost(layer_costs(config), plan.map);
  if (!options.stage_layers.empty())
    plan.split = split_as_given(options.stage_layers, config.layers, plan.map, plan.split);
  check_split(plan.split, config.layers, plan.map);
  return plan;
}

}  // namespace fivefold
