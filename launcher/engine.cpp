// One rank's step: forward and backward per micro-batch, reduction, update.
#include "launcher/engine.h"

#include "core/transfer.h"
#include "launcher/batches.h"
#include "parallel/mesh/groups.h"

namespace fivefold {

namespace {

std::unique_ptr<Backend> make_backend(const EngineOptions& options) {
  auto backend = make_cpu_backend({.threads = options.threads});
  return options.wrap_backend ? options.wrap_backend(std::move(backend)) : std::move(backend);
}

}  // namespace

Engine::Engine(EngineOptions options, Transport& transport, const std::vector<HostSlot>& slots)
    : options_(std::move(options)),
      memory_(make_cpu_memory(options_.memory)),
      backend_(make_backend(options_)),
      mesh_(std::make_unique<DeviceMesh>(options_.mesh, transport, slots, training_groups())) {
  run_.emplace(Run{*backend_, stream_, *memory_, *mesh_, options_.dtype});
  stage_.emplace(*run_, options_.model, StagePlan{.first_block = 0, .end_block = options_.model.layers}, options_.stage);
  optimizer_.emplace(*run_, options_.optimizer, stage_->parameter_count());
  params_ = stage_->sharded();
  loss_ = run_->zeros({1}, DType::f64, Tag::workspace);
}

void Engine::initialize(const InitOptions& init) {
  for (auto* p : params_) {
    std::vector<double> values(static_cast<std::size_t>(p->param->storage_box.count()));
    initial_values(*p->param, options_.model, init, p->param->storage_box, values);
    write(p->master, values, stream_);
    if (options_.dtype != run_->accum()) write(p->shard, values, stream_);
    for (const auto& moment : {p->m, p->v}) (*run_)(Fill{.x = moment, .value = 0});
  }
  optimizer_->set_counts(*run_, 0, 0);
  shards_changed();
}

void Engine::shards_changed() {
  for (auto& unit : stage_->units()) unit.shards_changed();
}

TokenRows Engine::rows_of(const MicroBatch& b) const {
  const auto put = [&](const std::vector<std::int32_t>& values) {
    return upload(*memory_, values, {static_cast<std::int64_t>(values.size())}, Tag::data, run_->stream);
  };
  return {.tokens = put(b.tokens), .targets = put(b.targets), .position = put(b.position), .q_index = put(b.q_index),
          .first_visible = put(b.first_visible), .k_index = put(b.k_index), .visible_pairs = visible_pairs(b)};
}

StepLoss Engine::total_loss(std::int64_t valid_tokens) {
  auto& group = mesh_->over({Axis::replicate, Axis::shard, Axis::cp}, "loss");
  group.all_reduce(loss_, Reduce::sum, run_->stream).wait(run_->stream);
  return {.sum = to_host(loss_, run_->stream)[0], .valid_tokens = valid_tokens};
}

StepLoss Engine::accumulate(std::span<const MicroBatch> micro_batches, std::int64_t valid_tokens) {
  const double scale = valid_tokens == 0 ? 0 : 1 / static_cast<double>(valid_tokens);
  const LossRequest request{.loss = loss_, .scale = scale};
  (*run_)(Fill{.x = loss_, .value = 0});
  for (auto& unit : stage_->units()) unit.zero_grads(*run_);
  for (int m = 0; m < static_cast<int>(micro_batches.size()); ++m) {
    stage_->forward(*run_, m, rows_of(micro_batches[static_cast<std::size_t>(m)]), {}, request);
    stage_->backward(*run_, m, {});
  }
  for (auto& unit : stage_->units()) unit.reduce_grads(*run_);
  for (auto& unit : stage_->units()) unit.finish_grads(*run_);
  return total_loss(valid_tokens);
}

StepReport Engine::update(const StepLoss& loss, double lr) {
  if (loss.valid_tokens == 0) {
    auto report = optimizer_->report(*run_);
    optimizer_->set_counts(*run_, report.steps, report.skipped + 1);
    return {.grad_norm = 0, .applied = false, .steps = report.steps, .skipped = report.skipped + 1};
  }
  optimizer_->step(*run_, params_, lr);
  shards_changed();
  return optimizer_->report(*run_);
}

StepLoss Engine::evaluate(std::span<const MicroBatch> micro_batches, std::int64_t valid_tokens) {
  (*run_)(Fill{.x = loss_, .value = 0});
  const LossRequest request{.loss = loss_, .scale = 0, .gradient = false};
  for (const auto& b : micro_batches) stage_->forward(*run_, 0, rows_of(b), {}, request);
  return total_loss(valid_tokens);
}

std::vector<double> Engine::logits(const MicroBatch& micro_batch) {
  return to_host(stage_->logits(*run_, rows_of(micro_batch), {}), run_->stream);
}

Engine::Agreement Engine::agree(std::int64_t value, bool flag) {
  const bool counts = mesh_->coordinate(Axis::tp) == 0 && mesh_->coordinate(Axis::pp) == 0;
  const std::array<double, 2> mine{counts ? static_cast<double>(value) : 0.0, flag ? 1.0 : 0.0};
  auto message = upload(*memory_, std::span<const double>(mine), {2}, DType::f64, Tag::communication, run_->stream);
  mesh_->world().all_reduce(message, Reduce::sum, run_->stream).wait(run_->stream);
  const auto all = to_host(message, run_->stream);
  return {.sum = static_cast<std::int64_t>(all[0]), .flag = all[1] > 0};
}

}  // namespace fivefold
