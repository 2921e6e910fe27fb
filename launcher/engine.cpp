// One rank's step: forward and backward per micro-batch, reduction, update.
#include "launcher/engine.h"

#include "core/copy.h"
#include "core/transfer.h"
#include "launcher/batches.h"
#include "parallel/mesh/groups.h"

namespace fivefold {

namespace {

ComputeDevice device_of(const EngineOptions& options) {
  auto device = open_device(options.device, options.threads, options.memory, options.deterministic);
  if (options.make_memory) device.memory = options.make_memory();
  if (options.wrap_backend) device.backend = options.wrap_backend(std::move(device.backend));
  return device;
}

constexpr std::int64_t kColumnAlignment = 64;  // elements, so that every column starts on 256 bytes

// Parts of k and v over tp where there are fewer kv heads than tp ranks; 0 where every rank has its own.
int kv_parts(const EngineOptions& options) {
  return options.model.kv_heads < options.mesh.tp ? static_cast<int>(options.model.kv_heads) : 0;
}

}  // namespace

Engine::Engine(EngineOptions options, Transport& transport, const std::vector<HostSlot>& slots)
    : options_(std::move(options)),
      device_(device_of(options_)),
      mesh_(std::make_unique<DeviceMesh>(options_.mesh, transport, slots,
                                         training_groups(kv_parts(options_)))) {
  run_.emplace(Run{*device_.backend, *device_.stream, *device_.memory, *mesh_, options_.dtype});
  plan_ = plan_pipeline(options_.model, options_.mesh.pp, options_.pipeline);
  stages_.emplace(*run_, options_.model, plan_, options_.stage);
  optimizer_.emplace(*run_, options_.optimizer, static_cast<int>(table().params.size()));
  params_ = stages_->sharded();
  loss_ = run_->zeros({1}, DType::f64, Tag::workspace);
}

void Engine::initialize(const InitOptions& init) {
  for (auto* p : params_) {
    const auto& box = p->param->storage_box;
    const auto value = run_->empty(box.shape(), run_->accum(), Tag::workspace);
    if (box.count() > 0) (*run_)(initial_values(*p->param, options_.model, init, box, value));
    (*run_)(WriteMaster{.value = value.view({value.count()}), .weight = p->stored()});
    for (const auto& moment : {p->m, p->v}) (*run_)(Fill{.x = moment, .value = 0});
  }
  optimizer_->set_counts(*run_, 0, 0);
  shards_changed();
  device_.memory->reset_peaks();  // marks are those of training
}

void Engine::shards_changed() {
  for (auto* unit : stages_->units()) unit->shards_changed();
}

// All columns travel in one copy.
TokenRows Engine::rows_of(const MicroBatch& b) const {
  const std::array columns{&b.tokens, &b.targets, &b.position, &b.q_index, &b.first_visible, &b.k_index};
  std::array<std::int64_t, columns.size() + 1> first{};
  for (std::size_t i = 0; i < columns.size(); ++i)
    first[i + 1] = first[i] + round_up(static_cast<std::int64_t>(columns[i]->size()), kColumnAlignment);
  const auto staged = empty(*device_.host, {first.back()}, DType::i32, Tag::staging, run_->stream);
  for (std::size_t i = 0; i < columns.size(); ++i)
    std::copy(columns[i]->begin(), columns[i]->end(), staged.data<std::int32_t>() + first[i]);
  const auto all = run_->empty(staged.shape(), DType::i32, Tag::data);
  copy_bytes(all, staged, run_->stream);
  const auto column = [&](std::size_t i) {
    return all.slice(first[i], static_cast<std::int64_t>(columns[i]->size()));
  };
  return {.tokens = column(0),
          .targets = column(1),
          .position = column(2),
          .q_index = column(3),
          .first_visible = column(4),
          .k_index = column(5),
          .sequence = b.sequence,
          .visible_pairs = visible_pairs(b)};
}

// The last stage's ranks have the sums, the others zeros.
StepLoss Engine::total_loss(std::int64_t valid_tokens) {
  for (auto* group :
       {&mesh_->over({Axis::replicate, Axis::shard, Axis::cp}, "loss"), &mesh_->over({Axis::pp}, "stages")})
    group->all_reduce(loss_, Reduce::sum, run_->stream).wait(run_->stream);
  return {.valid_tokens = valid_tokens, .loss = HostCopy(loss_, *device_.host, run_->stream)};
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

PendingReport Engine::skip_update() {
  auto report = optimizer_->report(*run_);
  ++report.skipped;
  optimizer_->set_counts(*run_, report.steps, report.skipped);
  return PendingReport({.grad_norm = 0, .applied = false, .steps = report.steps, .skipped = report.skipped});
}

PendingReport Engine::begin_update(const StepLoss& loss, double lr) {
  if (loss.valid_tokens == 0) return skip_update();
  optimizer_->step(*run_, params_, lr);
  shards_changed();
  return PendingReport(HostCopy(optimizer_->control(), *device_.host, run_->stream));
}

StepLoss Engine::evaluate(std::span<const MicroBatch> micro_batches, std::int64_t valid_tokens) {
  run_micro_batches(micro_batches, {.loss = loss_, .scale = 0, .gradient = false});
  return total_loss(valid_tokens);
}

Engine::Agreement Engine::agree(std::int64_t value, bool flag) {
  const bool counts = mesh_->coordinate(Axis::tp) == 0 && mesh_->coordinate(Axis::pp) == 0;
  const std::array<double, 2> mine{counts ? static_cast<double>(value) : 0.0, flag ? 1.0 : 0.0};
  const auto memory = options_.make_memory ? options_.make_memory() : device_.host;
  CpuStream host;
  const auto message =
      upload(*memory, std::span<const double>(mine), {2}, DType::f64, Tag::communication, host);
  mesh_->world().all_reduce(message, Reduce::sum, host).wait(host);
  const auto all = to_host(message, host);
  return {.sum = static_cast<std::int64_t>(all[0]), .flag = all[1] > 0};
}

}  // namespace fivefold
