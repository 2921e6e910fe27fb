// The micro-batches of one step as one rank feeds them to its model: which samples, cut for context, padded
// for tensor ranks.
#pragma once
#include <functional>
#include <vector>

#include "data/assignment.h"
#include "data/sampler.h"
#include "parallel/context/strategy.h"
#include "parallel/mesh/mesh.h"

namespace fivefold {

// The data position of a rank and what the model asks of its rows.
struct BatchPlan {
  std::int64_t global_batch = 1, micro_batch = 1;  // sequences
  std::int64_t data_rank = 0, data_ranks = 1;
  std::int64_t cp_rank = 0, cp = 1, tp = 1;
  ContextCut cut = ContextCut::zigzag;
  std::int64_t window = 0;  // keys a row sees; 0: all before it
};

// data rank = replicate coordinate x shard + shard coordinate.
BatchPlan plan_batches(const DeviceMesh& mesh, std::int64_t global_batch, std::int64_t micro_batch,
                       std::int64_t window, CpStrategy strategy);

// Samples [first, first + real) as a micro-batch of `count` sequences, the rest padding.
using BatchSource = std::function<MicroBatch(std::int64_t first, std::int64_t count, std::int64_t real)>;

// Every rank gets equally many micro-batches of equal shape; missing sequences are padding.
std::vector<MicroBatch> step_batches(const BatchSource& source, const BatchPlan& plan,
                                     std::int64_t first_sample);
std::vector<MicroBatch> step_batches(const Sampler& sampler, const BatchPlan& plan,
                                     std::int64_t first_sample);

// Window, context cut and row padding of one micro-batch, in that order.
MicroBatch fitted(MicroBatch batch, const BatchPlan& plan);

std::int64_t valid_targets(const std::vector<MicroBatch>& batches);

// (query, key) pairs that are visible to these rows, given that every index below the micro-batch's end has a
// key.
double visible_pairs(const MicroBatch& batch);

}  // namespace fivefold
