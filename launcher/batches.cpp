// From a step's first sample to this rank's micro-batches.
#include "launcher/batches.h"

namespace fivefold {

BatchPlan plan_batches(const DeviceMesh& mesh, std::int64_t global_batch, std::int64_t micro_batch,
                       std::int64_t window, CpStrategy strategy) {
  return {
      .global_batch = global_batch,
      .micro_batch = micro_batch,
      .data_rank = mesh.coordinate(Axis::replicate) * mesh.size(Axis::shard) + mesh.coordinate(Axis::shard),
      .data_ranks = mesh.shape().data_ranks(),
      .cp_rank = mesh.coordinate(Axis::cp),
      .cp = mesh.size(Axis::cp),
      .tp = mesh.size(Axis::tp),
      .cut = strategy == CpStrategy::ulysses ? ContextCut::contiguous : ContextCut::zigzag,
      .window = window};
}

MicroBatch fitted(MicroBatch batch, const BatchPlan& plan) {
  if (plan.window > 0) apply_window(batch, plan.window);
  auto cut = cut_context(batch, plan.cp_rank, plan.cp, plan.cut);
  pad_rows(cut, plan.tp);
  return cut;
}

std::vector<MicroBatch> step_batches(const Sampler& sampler, const BatchPlan& plan,
                                     std::int64_t first_sample) {
  return step_batches(
      [&](auto first, auto count, auto real) { return sampler.micro_batch(first, count, real); }, plan,
      first_sample);
}

std::vector<MicroBatch> step_batches(const BatchSource& source, const BatchPlan& plan,
                                     std::int64_t first_sample) {
  std::vector<MicroBatch> out;
  const auto count = micro_batches_per_step(plan.global_batch, plan.data_ranks, plan.micro_batch);
  for (std::int64_t m = 0; m < count; ++m) {
    const auto samples =
        samples_of(first_sample, plan.global_batch, plan.data_rank, plan.data_ranks, plan.micro_batch, m);
    out.push_back(fitted(source(samples.first, plan.micro_batch, samples.count), plan));
  }
  return out;
}

std::int64_t valid_targets(const std::vector<MicroBatch>& batches) {
  std::int64_t n = 0;
  for (const auto& b : batches) n += b.valid_targets;
  return n;
}

double visible_pairs(const MicroBatch& batch) {
  double pairs = 0;
  for (std::size_t i = 0; i < batch.q_index.size(); ++i)
    pairs += std::max(0, batch.q_index[i] - batch.first_visible[i] + 1);
  return pairs;
}

}  // namespace fivefold
