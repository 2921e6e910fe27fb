// `fivefold plan`: what a configuration would do on any number of ranks, without running it: where everything
// is, what it weighs, what it sends, and how the pipeline's time goes. docs/plan.md tells where each figure
// comes from.
#pragma once
#include <string>
#include <vector>

#include "launcher/config.h"
#include "launcher/dry_run.h"
#include "model/traffic.h"
#include "parallel/pipeline/simulate.h"

namespace fivefold {

// The first mesh position of a pp rank. Only trailing boxes are short, so no rank of the pp rank holds more.
struct RankPlan {
  int position = 0;
  std::int64_t parameters = 0;        // elements of the boxes that it computes with
  MemoryReport memory;                // as a run reports it
  std::vector<GroupTraffic> traffic;  // it sends in a step
};

struct Plan {
  MeshShape mesh;
  PipelinePlan pipeline;
  StepShape shape;
  std::int64_t micro_batches = 0;     // of a step on each data rank
  double step_flops = 0;              // of the model, all ranks
  Schedule schedule;                  // compute actions only
  Simulation simulation;              // in units of the mean forward of a stage
  std::vector<RankPlan> ranks;        // by pp rank
  std::vector<std::string> warnings;  // sentences for people
};

struct PlanOptions {
  int node = 8;  // ranks of one machine
};

// `config` is checked for `world`. Takes time by stages and micro-batches, not by ranks.
Plan make_plan(const Config& config, int world, const PlanOptions& options = {});

std::string to_text(const Plan& plan, const Config& config);

// What a careful person would ask about, before anything runs. Part of make_plan.
std::vector<std::string> plan_warnings(const Plan& plan, const Config& config, const PlanOptions& options);

}  // namespace fivefold
