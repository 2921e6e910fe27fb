// Batches, the timed loop, and the report's text.
#include "launcher/bench_step.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "core/philox.h"
#include "launcher/batches.h"
#include "launcher/engine.h"
#include "launcher/engine_options.h"

namespace fivefold {

namespace {

using Clock = std::chrono::steady_clock;

std::int32_t random_token(std::int64_t sample, std::int64_t place, std::int64_t vocab) {
  const auto block = philox(0, static_cast<std::uint64_t>(place), static_cast<std::uint64_t>(sample));
  return static_cast<std::int32_t>(block[0] % static_cast<std::uint64_t>(vocab));
}

BatchSource random_batches(const Config& config) {
  return [sequence = sequence_length(config), vocab = config.model.vocab](auto first, auto count, auto real) {
    return random_batch(first, count, real, sequence, vocab);
  };
}

EngineOptions options_for(const Config& config, int world, OpProfile* profile) {
  auto options = engine_options(config, world);
  if (profile)
    options.wrap_backend = [profile](std::unique_ptr<Backend> inner) {
      return make_profiling_backend(std::move(inner), *profile);
    };
  return options;
}

}  // namespace

MicroBatch random_batch(std::int64_t first_sample, std::int64_t count, std::int64_t real,
                        std::int64_t sequence, std::int64_t vocab) {
  MicroBatch b{.sequences = count,
               .sequence = sequence,
               .index_end = count * sequence,
               .valid_targets = real * sequence};
  for (std::int64_t row = 0; row < count * sequence; ++row) {
    const auto sample = row / sequence, place = row % sequence;
    if (sample >= real) {
      append_padding_row(b, static_cast<std::int32_t>(row));
      continue;
    }
    b.tokens.push_back(random_token(first_sample + sample, place, vocab));
    b.targets.push_back(random_token(first_sample + sample, place + 1, vocab));
    b.position.push_back(static_cast<std::int32_t>(place));
    b.q_index.push_back(static_cast<std::int32_t>(row));
    b.first_visible.push_back(static_cast<std::int32_t>(sample * sequence));
    b.k_index.push_back(static_cast<std::int32_t>(row));
  }
  return b;
}

BenchStepReport bench_step(const Config& config, RankContext& context, const BenchStepOptions& options) {
  BenchStepReport report;
  Engine engine(options_for(config, context.world_size(), options.profile ? &report.profile : nullptr),
                context.transport, context.slots);
  engine.initialize({.seed = config.run.seed});
  const auto plan = plan_batches(engine.mesh(), config.train.global_batch, config.train.micro_batch,
                                 config.model.window, config.parallel.cp_strategy);
  for (std::int64_t step = 0; step < options.warmup + options.steps; ++step) {
    if (step == options.warmup) report.profile.clear();
    const auto batches = step_batches(random_batches(config), plan, step * config.train.global_batch);
    context.transport.world().barrier();
    const auto start = Clock::now();
    const auto loss = engine.accumulate(batches, engine.agree(valid_targets(batches), false).sum);
    engine.update(loss, config.optimizer.lr);
    const std::chrono::duration<double> took = Clock::now() - start;
    report.loss = loss.mean();
    if (step >= options.warmup) report.seconds.push_back(took.count());
  }
  std::sort(report.seconds.begin(), report.seconds.end());
  report.tokens = config.train.global_batch * sequence_length(config);
  report.model_flops =
      model_flops_per_token(config.model, sequence_length(config)) * static_cast<double>(report.tokens);
  report.memory = engine.memory().report();
  return report;
}

std::string to_text(const BenchStepReport& r) {
  char text[400];
  std::snprintf(text, sizeof text,
                "step: median %.2f ms, min %.2f ms, max %.2f ms over %zu steps\n"
                "%.0f tokens/s, %.4f model TFLOP/s (forward and backward, at the median)\n"
                "loss of the last step %.4f\n",
                r.median() * 1e3, r.seconds.front() * 1e3, r.seconds.back() * 1e3, r.seconds.size(),
                static_cast<double>(r.tokens) / r.median(), r.model_flops / r.median() * 1e-12, r.loss);
  std::string out = str(text, "memory of rank 0:\n", to_string(r.memory));
  if (!r.profile.empty()) {
    double total = 0;
    for (double s : r.seconds) total += s;
    const auto steps = static_cast<std::int64_t>(r.seconds.size());
    out += to_text(r.profile, steps, total / static_cast<double>(steps));
  }
  return out;
}

}  // namespace fivefold
