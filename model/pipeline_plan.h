// Which blocks every pipeline stage holds, and where the stages live: pure functions of the model and the layout.
#pragma once
#include "model/config.h"
#include "parallel/pipeline/generators.h"
#include "parallel/pipeline/split.h"

namespace fivefold {

struct PipelineOptions {
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;                             // virtual stages a rank
  std::vector<std::int64_t> stage_layers;     // blocks a stage; empty: split by cost
};

struct PipelinePlan {
  StageMap map;
  std::vector<StageLayers> split;             // by stage
};

// Costs are matmul parameters: what a token pays in forward and backward.
LayerCosts layer_costs(const ModelConfig& config);
// Throws UserError where the layers cannot be split so.
PipelinePlan plan_pipeline(const ModelConfig& config, int pp, const PipelineOptions& options);

}  // namespace fivefold
