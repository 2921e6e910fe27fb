// What a micro-batch costs each pipeline stage, in FLOPs of products and attention on one rank: what
// `fivefold plan` simulates schedules with. Work between products (norms, activations, rotary) is small
// beside them and left out.
#pragma once
#include "model/pipeline_plan.h"
#include "parallel/pipeline/simulate.h"

namespace fivefold {

// A micro-batch as one rank meets it.
struct CostShape {
  std::int64_t rows = 0;     // T, padding included
  double visible_pairs = 0;  // (query, key) pairs of these rows
  int tp = 1;
  RecomputePolicy recompute = RecomputePolicy::none;
};

// By stage. With P matmul parameters of a block, H heads and d the dims of a score and a value together:
//   a block's forward     F = 2 T P / tp + 2 pairs H d / tp
//   its inputs' gradient  2 T P / tp + 2.5 x the attention above; F more under full recompute
//   its weights' gradient 2 T P / tp
// and the head, V x hidden, makes all three products in the last stage's forward.
std::vector<StageCosts> stage_costs(const ModelConfig& config, const PipelinePlan& plan,
                                    const CostShape& shape);

}  // namespace fivefold
