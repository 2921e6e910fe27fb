// Batches, the timed loop, and the report's text.
#include "launcher/bench_step.h"

#include <algorithm>
#include <cstdio>

#include "core/copy.h"
#include "core/cuda.h"
#include "core/philox.h"
#include "core/transfer.h"
#include "launcher/batches.h"
#include "launcher/device_peak.h"
#include "launcher/engine.h"
#include "launcher/engine_options.h"
#include "launcher/rank_device.h"

namespace fivefold {

namespace {

std::int32_t random_token(std::int64_t sample, std::int64_t place, std::int64_t vocab) {
  const auto block = philox(0, static_cast<std::uint64_t>(place), static_cast<std::uint64_t>(sample));
  return static_cast<std::int32_t>(block[0] % static_cast<std::uint64_t>(vocab));
}

BatchSource random_batches(const Config& config) {
  return [sequence = sequence_length(config), vocab = config.model.vocab](auto first, auto count, auto real) {
    return random_batch(first, count, real, sequence, vocab);
  };
}

EngineOptions options_for(const Config& config, const RankContext& context, OpProfiler* profiler) {
  auto options = engine_options(config, context);
  if (profiler)
    options.wrap_backend = [profiler](std::unique_ptr<Backend> inner) {
      return profiler->around(std::move(inner));
    };
  return options;
}

// Steps as the trainer takes them: on a device the gradients of one are queued before the report of the one
// before is there.
class StepLoop {
 public:
  StepLoop(Engine& engine, const Config& config, Communicator& world)
      : engine_(engine),
        config_(config),
        world_(world),
        plan_(plan_batches(engine.mesh(), config.train.global_batch, config.train.micro_batch,
                           config.model.window, config.parallel.cp_strategy)) {}

  // Seconds of each of some further steps by the clock of the device, ascending.
  std::vector<double> take(std::int64_t steps) {
    world_.barrier();
    timer_->clear();
    std::vector<StreamTimer::Mark> ends{timer_->mark(stream())};
    for (std::int64_t i = 0; i < steps; ++i) {
      step();
      ends.push_back(timer_->mark(stream()));
    }
    finish();
    std::vector<double> seconds;
    for (std::size_t i = 1; i < ends.size(); ++i) seconds.push_back(timer_->seconds(ends[i - 1], ends[i]));
    std::sort(seconds.begin(), seconds.end());
    return seconds;
  }
  double loss() const { return loss_; }  // of the last step

 private:
  Stream& stream() { return engine_.run().stream; }

  void step() {
    const auto batches = step_batches(random_batches(config_), plan_, step_++ * config_.train.global_batch);
    auto loss = engine_.accumulate(batches, engine_.agree(valid_targets(batches), false).sum);
    finish();
    auto report = engine_.begin_update(loss, config_.optimizer.lr);
    pending_.emplace(std::move(loss), std::move(report));
  }

  void finish() {
    if (!pending_) return;
    pending_->second.get();
    loss_ = pending_->first.mean();
    pending_.reset();
  }

  Engine& engine_;
  const Config& config_;
  Communicator& world_;
  BatchPlan plan_;
  std::int64_t step_ = 0;
  double loss_ = 0;
  std::optional<std::pair<StepLoss, PendingReport>> pending_;
  std::unique_ptr<StreamTimer> timer_ = make_stream_timer(engine_.options().device);
};

std::string device_text(const Device& device) {
  return device.kind == DeviceKind::cuda ? cuda_device_name(device.index) : "CPU";
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
  OpProfiler profiler;
  Engine engine(options_for(config, context, options.profile ? &profiler : nullptr), context.transport,
                context.slots);
  engine.initialize({.seed = config.run.seed});
  StepLoop loop(engine, config, context.transport.world());
  if (options.warmup > 0) loop.take(options.warmup);
  BenchStepReport report{.seconds = loop.take(options.steps)};
  if (options.profile) {
    profiler.start();
    report.profiled_seconds = loop.take(options.steps);
    report.profile = profiler.stop();
  }
  report.loss = loop.loss();
  report.device = device_text(engine.options().device);
  const int devices = devices_of(context, engine.options().device);
  if (const auto peak = peak_flops(engine.options())) report.peak_flops = *peak * devices;
  report.tokens = config.train.global_batch * sequence_length(config);
  report.model_flops =
      model_flops_per_token(config.model, sequence_length(config)) * static_cast<double>(report.tokens);
  report.memory = engine.memory().report();
  return report;
}

std::string to_text(const BenchStepReport& r) {
  char text[400], mfu[60] = "";
  const double rate = r.model_flops / r.median();
  if (r.peak_flops)
    std::snprintf(mfu, sizeof mfu, ", MFU %.2f %% of %.1f TFLOP/s", rate / *r.peak_flops * 100,
                  *r.peak_flops * 1e-12);
  std::snprintf(text, sizeof text,
                "step: median %.2f ms, min %.2f ms, max %.2f ms over %zu steps\n"
                "%.0f tokens/s, %.4f model TFLOP/s (forward and backward, at the median)%s\n"
                "loss of the last step %.4f\n",
                r.median() * 1e3, r.seconds.front() * 1e3, r.seconds.back() * 1e3, r.seconds.size(),
                static_cast<double>(r.tokens) / r.median(), rate * 1e-12, mfu, r.loss);
  std::string out = str("on ", r.device, '\n', text, "memory of rank 0:\n", to_string(r.memory));
  if (!r.profile.empty())
    out += to_text(r.profile, static_cast<std::int64_t>(r.profiled_seconds.size()), r.median());
  return out;
}

}  // namespace fivefold
