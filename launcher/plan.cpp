// Puts together the parts of a plan: schedule, simulation, and a dry run and the traffic of one rank a pp
// rank.
#include "launcher/plan.h"

#include <numeric>

#include "launcher/batches.h"
#include "launcher/engine_options.h"
#include "model/cost.h"

namespace fivefold {

namespace {

// Passes of a micro-batch through a block that all dry runs together may take; about a second.
constexpr std::int64_t kMostPasses = 20'000;

// The same step with fewer micro-batches, and what one round of pp of them adds: schedules repeat themselves
// by then, so every peak grows evenly.
MemoryReport extrapolated(const MemoryReport& fewer, const MemoryReport& more, std::int64_t rounds) {
  auto out = more;
  const auto grow = [&](std::int64_t& value, std::int64_t before) { value += rounds * (value - before); };
  for (std::size_t t = 0; t < out.peak.size(); ++t) grow(out.peak[t], fewer.peak[t]);
  grow(out.peak_total, fewer.peak_total);
  return out;
}

// How many micro-batches a dry run takes for `m`: all, or as many as the budget has room for, by whole rounds
// of pp fewer.
std::int64_t dry_micro_batches(std::int64_t m, std::int64_t layers, const StageMap& map) {
  const auto most = std::max<std::int64_t>(kMostPasses / layers, 4 * map.stages());
  if (m <= most) return m;
  return m - ceil_div(m - most, map.ranks) * map.ranks;
}

class Planner {
 public:
  Planner(const Config& config, int world)
      : config_(config),
        options_(dry_options(engine_options(config, world))),
        step_(dry_step(config, options_.mesh)) {}

  Plan make() {
    Plan plan{.mesh = options_.mesh,
              .pipeline = plan_pipeline(config_.model, options_.mesh.pp, options_.pipeline),
              .shape = {.rows = step_.batch.rows(), .sequence = step_.batch.sequence},
              .micro_batches = step_.micro_batches,
              .schedule = {},
              .simulation = {},
              .ranks = {},
              .warnings = {}};
    const auto sequence = sequence_length(config_);
    plan.step_flops = model_flops_per_token(config_.model, sequence) *
                      static_cast<double>(config_.train.global_batch * sequence);
    const auto& map = plan.pipeline.map;
    plan.schedule = make_schedule(options_.pipeline.schedule, map.ranks, map.stages() / map.ranks,
                                  static_cast<int>(plan.micro_batches));
    plan.simulation = simulate(plan.schedule, costs(plan.pipeline));
    for (int r = 0; r < map.ranks; ++r) plan.ranks.push_back(rank(plan, r));
    return plan;
  }

 private:
  // In units of the mean forward of a stage.
  PipelineCosts costs(const PipelinePlan& pipeline) const {
    auto stages = stage_costs(config_.model, pipeline,
                              {.rows = step_.batch.rows(),
                               .visible_pairs = visible_pairs(step_.batch),
                               .tp = options_.mesh.tp,
                               .recompute = options_.stage.recompute});
    double mean = 0;
    for (const auto& s : stages) mean += s.forward / static_cast<double>(stages.size());
    for (auto& s : stages)
      s = {.forward = s.forward / mean, .input = s.input / mean, .weight = s.weight / mean};
    return {.stages = std::move(stages)};
  }

  RankPlan rank(const Plan& plan, int pp_rank) const {
    const MeshLayout mesh(options_.mesh);
    RankPlan out{.position = pp_rank * (options_.mesh.world() / options_.mesh.pp),
                 .memory = memory(plan, pp_rank),
                 .traffic = {}};
    const auto params = place_parameters(config_.model, mesh, out.position);
    const auto infos = parameter_list(config_.model);
    for (std::size_t i = 0; i < infos.size(); ++i) {
      const auto holders = pp_ranks_of(infos[i], config_.model, plan.pipeline);
      if (std::find(holders.begin(), holders.end(), pp_rank) != holders.end())
        out.parameters += params[i].compute_box.count();
    }
    out.traffic = step_traffic({.model = config_.model,
                                .pipeline = plan.pipeline,
                                .schedule = plan.schedule,
                                .stage = options_.stage,
                                .dtype = options_.dtype,
                                .shape = plan.shape},
                               mesh, out.position);
    return out;
  }

  // Replicas hold the same, so the dry run leaves them out.
  MemoryReport memory(const Plan& plan, int pp_rank) const {
    auto options = options_;
    options.mesh.replicate = 1;
    const int position = pp_rank * (options.mesh.world() / options.mesh.pp);
    const auto run = [&](std::int64_t micro_batches) {
      auto step = step_;
      step.micro_batches = micro_batches;
      return dry_run(options, step, position).memory;
    };
    const auto& map = plan.pipeline.map;
    const auto taken = dry_micro_batches(plan.micro_batches, config_.model.layers, map);
    if (taken == plan.micro_batches) return run(taken);
    return extrapolated(run(taken - map.ranks), run(taken), (plan.micro_batches - taken) / map.ranks);
  }

  const Config& config_;
  EngineOptions options_;
  DryStep step_;
};

}  // namespace

Plan make_plan(const Config& config, int world, const PlanOptions& options) {
  auto plan = Planner(config, world).make();
  plan.warnings = plan_warnings(plan, config, options);
  return plan;
}

}  // namespace fivefold
