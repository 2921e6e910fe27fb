#include "launcher/dry_run.h"

#include "kernels/cuda_backend.h"
#include "launcher/batches.h"
#include "launcher/bench_step.h"
#include "parallel/comm/lone_transport.h"

namespace fivefold {

namespace {

// Checks operands, computes nothing.
class IdleBackend final : public Implements<IdleBackend, Backend, AllOps> {
 public:
  DeviceKind device() const override { return DeviceKind::none; }
  template <class Op>
  void execute(const Op&, Stream&) {}
};

// Of the right size.
std::shared_ptr<const RopeTables> empty_tables(const EngineOptions& options) {
  const auto& stage = options.stage;
  const auto positions = stage.context > 0 ? stage.context : options.model.context;
  const std::vector<double> values(static_cast<std::size_t>(positions * (options.model.head_dim / 2)));
  return std::make_shared<const RopeTables>(RopeTables{values, values});
}

EngineOptions idle(EngineOptions options) {
  options.make_memory = [] { return make_counting_memory(); };
  options.wrap_backend = [](std::unique_ptr<Backend>) { return std::make_unique<IdleBackend>(); };
  return options;
}

std::vector<HostSlot> one_host(int ranks) {
  std::vector<HostSlot> slots;
  for (int r = 0; r < ranks; ++r) slots.push_back({"", r});
  return slots;
}

}  // namespace

DryStep dry_step(const Config& config, const MeshShape& mesh) {
  const auto& train = config.train;
  const bool contiguous = config.parallel.cp_strategy == CpStrategy::ulysses;
  const BatchPlan plan{.global_batch = train.global_batch,
                       .micro_batch = train.micro_batch,
                       .data_ranks = mesh.data_ranks(),
                       .cp = mesh.cp,
                       .tp = mesh.tp,
                       .cut = contiguous ? ContextCut::contiguous : ContextCut::zigzag,
                       .window = config.model.window};
  const auto whole =
      random_batch(0, train.micro_batch, train.micro_batch, sequence_length(config), config.model.vocab);
  return {.batch = fitted(whole, plan),
          .micro_batches = micro_batches_per_step(train.global_batch, mesh.data_ranks(), train.micro_batch),
          .backend_bytes = train.device == DeviceChoice::cuda ? kCudaWorkspaceBytes : 0};
}

EngineOptions dry_options(EngineOptions options) {
  options.stage.rope = empty_tables(options);
  return options;
}

DryRun dry_run(const EngineOptions& options, const DryStep& step, int position) {
  const auto transport = make_lone_transport(position, options.mesh.world());
  Engine engine(idle(options.stage.rope ? options : dry_options(options)), *transport,
                one_host(options.mesh.world()));
  const auto room = engine.memory().allocate(step.backend_bytes, Tag::workspace, engine.run().stream);
  auto& ledger = transport->world().ledger();
  ledger.reset_totals();
  const std::vector<MicroBatch> batches(static_cast<std::size_t>(step.micro_batches), step.batch);
  engine.agree(1, false);
  engine.update(engine.accumulate(batches, 1), 0);
  return {engine.memory().report(), ledger.totals()};
}

}  // namespace fivefold
