// Copies settings, fills in what 0 stands for.
#include "launcher/engine_options.h"

#include <algorithm>

#include "launcher/rank_device.h"

namespace fivefold {

namespace {
// Logits of so many rows at a time unless train.loss_rows says otherwise. In bf16, what GPUs train in, more:
// the head's weight gradient is read and written once a chunk, and that costs a third of its product at 1024
// rows; but not more logits than 1 GiB.
std::int64_t loss_rows(const Config& config) {
  constexpr std::int64_t kRows = 1024, kMostRows = 4096, kMostBytes = std::int64_t{1} << 30;
  if (config.train.loss_rows > 0) return config.train.loss_rows;
  if (config.train.precision != DType::bf16) return kRows;
  const auto row_bytes = ceil_div(config.model.vocab, config.parallel.tp) * size_of(DType::bf16);
  return std::clamp(kMostBytes / row_bytes / kRows * kRows, kRows, kMostRows);
}

// auto: weights come and go around their use without a pipeline, once a step with one.
ZeroPolicy zero_policy(const ParallelConfig& p, const TrainConfig& train) {
  return {.stage = p.zero,
          .reduce_each_micro_batch = p.reduce == ReduceWhen::micro_batch,
          .reshard_after_use = p.reshard == Reshard::always || (p.reshard == Reshard::automatic && p.pp == 1),
          .storage = state_storage(train)};
}

}  // namespace

EngineOptions engine_options(const Config& config, int world) {
  const auto& o = config.optimizer;
  return {.model = config.model,
          .mesh = mesh_shape(config.parallel, world),
          .dtype = config.train.precision,
          .threads = config.train.threads,
          .deterministic = config.train.deterministic,
          .stage = {.recompute = config.train.recompute,
                    .zero = zero_policy(config.parallel, config.train),
                    .cp_strategy = config.parallel.cp_strategy,
                    .loss_rows = loss_rows(config),
                    .context = sequence_length(config)},
          .pipeline = {.schedule = config.parallel.schedule,
                       .chunks = config.parallel.chunks,
                       .stage_layers = config.parallel.stage_layers},
          .optimizer = {.beta1 = o.beta1,
                        .beta2 = o.beta2,
                        .eps = o.eps,
                        .weight_decay = o.weight_decay,
                        .clip = o.clip},
          .memory = {.limit_bytes = config.train.memory_limit_bytes}};
}

EngineOptions engine_options(const Config& config, const RankContext& context) {
  auto options = engine_options(config, context.world_size());
  options.device = rank_device(config.train, context);
  return options;
}

SaveOptions save_options(const Config& config) {
  return {.compression = config.checkpoint.compress ? Compression::fast : Compression::none};
}

}  // namespace fivefold
