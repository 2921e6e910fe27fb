// Costs from the parameter list, maps from the schedule's kind.
#include "model/pipeline_plan.h"

#include "model/parameters.h"

namespace fivefold {

LayerCosts layer_costs(const ModelConfig& config) {
  LayerCosts costs{.blocks = std::vector<double>(static_cast<std::size_t>(config.layers), 0.0)};
  for (const auto& info : parameter_list(config)) {
    if (info.block < 0 || info.shape.rank() < 2) continue;
    const bool expert = info.kind == ParamKind::expert_gate_up || info.kind == ParamKind::expert_down;
    const double used = expert ? static_cast<double>(config.experts_per_token) / static_cast<double>(config.experts) : 1.0;
    costs.blocks[static_cast<std::size_t>(info.block)] += used * static_cast<double>(info.shape.count());
  }
  costs.head = static_cast<double>(config.vocab) * static_cast<double>(config.hidden);
  return costs;
}

PipelinePlan plan_pipeline(const ModelConfig& config, int pp, const PipelineOptions& options) {
  PipelinePlan plan{.map = options.schedule == ScheduleKind::zb_v ? vee_map(pp) : loop_map(pp, options.chunks), .split = {}};
  plan.split = split_by_cost(layer_costs(config), plan.map);
  if (!options.stage_layers.empty()) plan.split = split_as_given(options.stage_layers, config.layers, plan.map, plan.split);
  check_split(plan.split, config.layers, plan.map);
  return plan;
}

}  // namespace fivefold
