// Which blocks every pipeline stage holds, and where the stages live: pure functions of the model and the
// layout.
#pragma once
#include <optional>

#include "model/parameters.h"
#include "parallel/pipeline/generators.h"
#include "parallel/pipeline/split.h"

namespace fivefold {

struct PipelineOptions {
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;                          // virtual stages a rank
  std::vector<std::int64_t> stage_layers;  // blocks a stage; empty: split by cost
};

struct PipelinePlan {
  StageMap map;
  std::vector<StageLayers> split;  // by stage
};

// The pp ranks whose stages use a tied embedding first and last.
struct TiedRanks {
  int first = 0, last = 0;
  bool across() const { return first != last; }
};
// Nothing where the head is a parameter of its own.
std::optional<TiedRanks> tied_ranks(const ModelConfig& config, const PipelinePlan& plan);
// The pp ranks whose stages hold a parameter, ascending: one, or both of a table that is tied across.
std::vector<int> pp_ranks_of(const ParamInfo& info, const ModelConfig& config, const PipelinePlan& plan);

// Costs are matmul parameters: what a token pays in forward and backward.
LayerCosts layer_costs(const ModelConfig& config);
// Throws UserError where the layers cannot be split so.
PipelinePlan plan_pipeline(const ModelConfig& config, int pp, const PipelineOptions& options);

}  // namespace fivefold
