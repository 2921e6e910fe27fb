// Sums over the blocks of each stage.
#include "model/cost.h"

namespace fivefold {

namespace {

// A stage that is an embedding alone still takes its turn.
constexpr double kLeast = 1;

double attention_forward(const ModelConfig& c, const CostShape& shape) {
  const auto dims = c.latent() ? c.qk_nope_dim + c.qk_rope_dim + c.v_dim : 2 * c.head_dim;
  return 2 * shape.visible_pairs * static_cast<double>(c.heads * dims) / shape.tp;
}

}  // namespace

std::vector<StageCosts> stage_costs(const ModelConfig& config, const PipelinePlan& plan,
                                    const CostShape& shape) {
  const auto layers = layer_costs(config);
  const double per_parameter = 2 * static_cast<double>(shape.rows) / shape.tp,
               attention = attention_forward(config, shape);
  std::vector<StageCosts> out;
  for (const auto& stage : plan.split) {
    StageCosts costs{.forward = kLeast, .input = kLeast, .weight = kLeast};
    for (auto b = stage.first; b < stage.end; ++b) {
      const double product = per_parameter * layers.blocks[static_cast<std::size_t>(b)],
                   forward = product + attention;
      costs.forward += forward;
      costs.input += product + 2.5 * attention + (shape.recompute == RecomputePolicy::full ? forward : 0);
      costs.weight += product;
    }
    if (stage.ends) costs.forward += 3 * per_parameter * layers.head;
    out.push_back(costs);
  }
  return out;
}

}  // namespace fivefold
