// --explain-grads: every parameter, how it is cut, and over which ranks its gradient is summed. Made from the
// functions that the running code asks (model/placement.h, parallel/mesh/param.h, model/pipeline_plan.h), so
// it cannot say otherwise.
#pragma once
#include "launcher/arguments.h"
#include "launcher/config.h"
#include "model/pipeline_plan.h"
#include "parallel/mesh/param.h"

namespace fivefold {

// Of the commands that train or plan.
constexpr const char* kExplainOption = "--explain-grads";
ArgumentSpec explain_option();

// One step of a gradient's way from the ranks that made its parts to the ranks that keep its sum.
struct GradientSum {
  enum class How : std::uint8_t { pair, reduce_scatter, all_reduce };  // pair: both holders of a tied table
  How how = How::all_reduce;
  std::vector<Axis> axes;
  int parts = 0;  // of the last axis: ranks that share a part sum; 0: the whole axis
  int ranks = 1;  // that sum together
};

struct GradientRow {
  std::string name;
  Shape shape;
  PartitionSpec compute, storage;
  std::vector<int> pp_ranks;      // whose stages hold it
  bool two_uses = false;          // tied, both uses on one rank: added before they are summed
  std::vector<GradientSum> sums;  // in order; groups of one rank are left out
  int holders = 0;                // ranks that hold a part of it
  int parts_of_sum() const;       // ranks whose gradients are parts of one sum
};

// In global parameter order.
std::vector<GradientRow> explain_gradients(const ModelConfig& model, const MeshShape& mesh,
                                           const PipelinePlan& plan);
std::string to_text(const std::vector<GradientRow>& rows, const MeshShape& mesh);

// The same of a configuration on `world` ranks.
std::string explain_gradients(const Config& config, int world);

}  // namespace fivefold
