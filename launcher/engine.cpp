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

// Parts of k and v over tp where there are fewer kv heads than tp ranks; 0 where every rank has its own.
int kv_parts(const EngineOptions& options) {
  return options.model.kv_heads < options.mesh.tp ? static_cast<int>(options.model.kv_heads) : 0;
}

}  // namespace

Engine::Engine(EngineOptions options, Transport& transport, const std::vector<HostSlot>& slots)
    : options_(std::move(options)),
      memory_(options_.make_memory ? options_.make_memory() : make_cpu_memory(options_.memory)),
      backend_(make_backend(options_)),
      mesh_(std::make_unique<DeviceMesh>(options_.mesh, transport, slots,
                                         training_groups(kv_parts(options_)))) {
  run_.emplace(Run{*backend_, stream_, *memory_, *mesh_, options_.dtype});
  plan_ = plan_pipeline(options_.model, options_.mesh.pp, options_.pipeline);
  stages_.emplace(*run_, options_.model, plan_, options_.stage);
  optimizer_.emplace(*run_, options_.optimizer, static_cast<int>(table().params.size()));
  params_ = stages_->sharded();
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
  for (auto* unit : stages_->units()) unit->shards_changed();
}

TokenRows Engine::rows_of(const MicroBatch& b) const {
  const auto put = [&](const std::vector<std::int32_t>& values) {
    return upload(*memory_, values, {static_cast<std::int64_t>(values.size())}, Tag::data, run_->stream);
  };
  return {.tokens = put(b.tokens),
          .targets = put(b.targets),
          .position = put(b.position),
          .q_index = put(b.q_index),
          .first_visible = put(b.first_visible),
          .k_index = put(b.k_index),
          .sequence = b.sequence,
          .visible_pairs = visible_pairs(b)};
}

// The last stage's ranks have the sums, the others zeros.
StepLoss Engine::total_loss(std::int64_t valid_tokens) {
  for (auto* group :
       {&mesh_->over({Axis::replicate, Axis::shard, Axis::cp}, "loss"), &mesh_->over({Axis::pp}, "stages")})
    group->all_reduce(loss_, Reduce::sum, run_->stream).wait(run_->stream);
  return {.sum = to_host(loss_, run_->stream)[0], .valid_tokens = valid_tokens};
}

const Schedule& Engine::schedule_for(int micro_batches, bool gradient) {
  auto& schedule = schedules_[{micro_batches, gradient}];
  if (schedule.lists.empty()) {
    const ScheduleSpec spec{.kind = options_.pipeline.schedule,
                            .ranks = plan_.map.ranks,
                            .chunks = plan_.map.stages() / plan_.map.ranks,
                            .micro_batches = micro_batches};
    schedule = gradient ? training_schedule(spec) : evaluation_schedule(spec);
  }
  return schedule;
}

void Engine::run_micro_batches(std::span<const MicroBatch> micro_batches, const LossRequest& request) {
  (*run_)(Fill{.x = loss_, .value = 0});
  std::vector<TokenRows> rows;
  std::vector<CarriedShape> shapes;
  for (const auto& b : micro_batches) {
    rows.push_back(rows_of(b));
    shapes.push_back({.rows = {b.rows() / mesh_->size(Axis::tp), options_.model.hidden}, .side = {}});
  }
  const auto& schedule = schedule_for(static_cast<int>(micro_batches.size()), request.gradient);
  run_pipeline(*run_, mesh_->over({Axis::pp}, "stages"), schedule, stages_->begin_step(rows, request),
               shapes);
}

StepLoss Engine::accumulate(std::span<const MicroBatch> micro_batches, std::int64_t valid_tokens) {
  const double scale = valid_tokens == 0 ? 0 : 1 / static_cast<double>(valid_tokens);
  const auto units = stages_->units();
  for (auto* unit : units) unit->zero_grads(*run_);
  run_micro_batches(micro_batches, {.loss = loss_, .scale = scale});
  for (auto* unit : units) unit->reduce_grads(*run_);
  for (auto* unit : units) unit->finish_grads(*run_);
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
  run_micro_batches(micro_batches, {.loss = loss_, .scale = 0, .gradient = false});
  return total_loss(valid_tokens);
}

Engine::Agreement Engine::agree(std::int64_t value, bool flag) {
  const bool counts = mesh_->coordinate(Axis::tp) == 0 && mesh_->coordinate(Axis::pp) == 0;
  const std::array<double, 2> mine{counts ? static_cast<double>(value) : 0.0, flag ? 1.0 : 0.0};
  auto message =
      upload(*memory_, std::span<const double>(mine), {2}, DType::f64, Tag::communication, run_->stream);
  mesh_->world().all_reduce(message, Reduce::sum, run_->stream).wait(run_->stream);
  const auto all = to_host(message, run_->stream);
  return {.sum = static_cast<std::int64_t>(all[0]), .flag = all[1] > 0};
}

}  // namespace fivefold
