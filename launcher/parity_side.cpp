// Engines that differ in their layout alone.
#include "launcher/parity_side.h"

#include "core/transfer.h"
#include "launcher/bench_step.h"
#include "launcher/engine_options.h"
#include "launcher/train_data.h"
#include "parallel/comm/lone_transport.h"

namespace fivefold {

namespace {

constexpr double kEps = 1e-6, kNoise = 0.1;

EngineOptions options_of(const Config& config, int world, Device device) {
  auto options = engine_options(config, world);
  options.device = device;
  options.optimizer.eps = kEps;
  return options;
}

Config for_one_rank(Config config, DType dtype) {
  const bool balances_the_batch = config.model.aux_loss > 0 && config.model.aux_scope == AuxScope::batch;
  config.parallel = ParallelConfig{};
  config.train.micro_batch = balances_the_batch ? config.train.global_batch : 1;
  config.train.recompute = RecomputePolicy::none;
  if (config.train.precision != dtype) {
    config.train.precision = dtype;
    config.train.master = MasterStorage::automatic;
    config.train.moments = config.train.gradients = std::nullopt;
  }
  return config;
}

}  // namespace

BatchSource parity_batches(const Config& config) {
  if (config.data.train.empty())
    return
        [sequence = sequence_length(config), vocab = config.model.vocab](auto first, auto count, auto real) {
          return random_batch(first, count, real, sequence, vocab);
        };
  const auto sampler = std::make_shared<const Sampler>(open_train_data(config).train);
  return [sampler](auto first, auto count, auto real) { return sampler->micro_batch(first, count, real); };
}

ParitySide::ParitySide(const Config& config, Transport& transport, const std::vector<HostSlot>& slots,
                       Device device, const BatchSource& source)
    : source_(source),
      lr_(config.optimizer.lr),
      engine_(options_of(config, transport.world().size(), device), transport, slots),
      plan_(plan_batches(engine_.mesh(), config.train.global_batch, config.train.micro_batch,
                         config.model.window, config.parallel.cp_strategy)) {
  engine_.initialize({.seed = config.run.seed, .one_dimensional_noise = kNoise});
}

double ParitySide::accumulate(std::int64_t step) {
  const auto batches = step_batches(source_, plan_, step * plan_.global_batch);
  loss_ = engine_.accumulate(batches, engine_.agree(valid_targets(batches), false).sum);
  return loss_.mean();
}

double ParitySide::update() { return engine_.update(loss_, lr_).grad_norm; }

ParityAlone::ParityAlone(const Config& config, DType dtype, Device device, const BatchSource& source)
    : transport_(make_lone_transport()),
      side_(for_one_rank(config, dtype), *transport_, {HostSlot{"", 0}}, device, source) {}

std::vector<double> ParityAlone::values(const Param& param, Tensor ShardedParam::*member) {
  auto& engine = side_.engine();
  const auto* p = engine.params()[static_cast<std::size_t>(param.index)];
  return to_host(p->in_full(engine.run(), member), engine.run().stream);
}

}  // namespace fivefold
