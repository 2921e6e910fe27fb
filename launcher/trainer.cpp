// The loop: batches, agreement, step, what is shown, validation, checkpoints.
#include "launcher/trainer.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "checkpoint/save.h"
#include "checkpoint/steps.h"
#include "kernels/blas_check.h"
#include "launcher/affinity.h"
#include "launcher/agreement.h"
#include "launcher/batches.h"
#include "launcher/device_peak.h"
#include "launcher/engine_options.h"
#include "launcher/model_state.h"
#include "launcher/rank_device.h"

namespace fivefold {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Agreement comes before anything else is made: ranks of different opinions must not meet in a collective.
RankContext& agreed(RankContext& context, const ResolvedConfig& resolved) {
  check_agreement(context.transport.world(), rank_facts(to_text(resolved.config)));
  return context;
}

LogOptions log_options(const Config& config, const RankContext& context, const std::string& file) {
  return {.world_rank = context.world_rank(), .level = config.log.level, .file = file};
}

// Null unless the run is traced.
std::shared_ptr<RankTrace> make_trace(const Config& config, int world_rank) {
  if (!config.log.trace) return nullptr;
  return std::make_shared<RankTrace>(world_rank, run_directory(config.run).trace(world_rank));
}

EngineOptions traced(EngineOptions options, const std::shared_ptr<RankTrace>& trace) {
  if (trace)
    options.wrap_backend = [trace](std::unique_ptr<Backend> inner) {
      return trace->around(std::move(inner));
    };
  return options;
}

}  // namespace

Trainer::Trainer(const ResolvedConfig& resolved, RankContext& context, const StopSignals& signals)
    : resolved_(resolved),
      config_(resolved.config),
      signals_(signals),
      context_(agreed(context, resolved)),
      leads_(context.world_rank() == 0),
      directory_(run_directory(config_.run)),
      data_(open_train_data(config_)),
      trace_(make_trace(config_, context.world_rank())),
      engine_(traced(engine_options(config_, context), trace_), context.transport, context.slots),
      peak_flops_(peak_flops(engine_.options())),
      devices_(devices_of(context, engine_.options().device)),
      position_(begin()),
      log_(log_options(config_, context, directory_.log(context.world_rank()).string())),
      plan_(plan_batches(engine_.mesh(), config_.train.global_batch, config_.train.micro_batch,
                         config_.model.window, config_.parallel.cp_strategy)),
      schedule_(lr_schedule(config_)),
      bar_(leads_ && stderr_is_terminal()) {
  if (position_.resumed_from) saved_step_ = position_.step;
  if (leads_) announce();
  if (trace_) trace_->start(trace_window(config_.run.steps - attempts_done()), engine_.mesh());
}

// A run that is refused leaves nothing behind: what is said here goes to a file only where the run has a
// folder already.
TrainPosition Trainer::begin() {
  const auto file = directory_.log(context_.world_rank()).string();
  const Log log(log_options(config_, context_, std::filesystem::exists(directory_.root) ? file : ""));
  context_.transport.world().ledger().set_activity("checkpoint/load");
  check_blas(engine_.backend(), engine_.memory(), engine_.run().stream);
  return begin_run(engine_, config_, directory_, data_.identity, log);
}

void Trainer::announce() {
  std::filesystem::create_directories(directory_.root);
  std::ofstream(directory_.config()) << to_text(resolved_);
  metrics_.emplace(directory_.metrics(), position_.samples);
  log_.info("run ", directory_.root.string(), ": ", fivefold::parameter_count(config_.model), " parameters, ",
            to_string(engine_.mesh().shape()), ", ", context_.transport.kind(), " transport, ",
            name_of(config_.train.precision));
  log_.info("data: ", data_.train.samples(), " samples of ", sequence_length(config_), " tokens an epoch; ",
            usable_cores(), " usable cores, ", config_.train.threads, " threads a rank");
  if (const auto warning = affinity_warning(config_.train.threads, usable_cores()); !warning.empty())
    log_.warn(warning);
  for (const auto& warning : engine_.mesh().warnings()) log_.warn(warning);
  if (engine_.mesh().size(Axis::pp) > 1)
    log_.info("stages:\n", stage_map_text(engine_.pipeline().split, engine_.pipeline().map));
}

bool Trainer::stop_wanted() const {
  if (signals_.seen() != 0) return true;
  const char* end = std::getenv("SLURM_JOB_END_TIME");  // seconds since the epoch
  if (config_.run.stop_before_s <= 0 || !end) return false;
  const auto now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return now + config_.run.stop_before_s >= std::strtod(end, nullptr);
}

int Trainer::run() {
  bool stopped = false;
  while (attempts_done() < config_.run.steps && !stopped) {
    stopped = !step();
    if (stopped) break;
    const auto done = attempts_done();
    const bool last = done >= config_.run.steps;
    if (last || (config_.data.eval_every > 0 && done % config_.data.eval_every == 0)) evaluate();
    if (last || (config_.checkpoint.every > 0 && done % config_.checkpoint.every == 0)) save();
  }
  if (stopped) {
    bar_.clear();
    save();
    log_.info("stopped on request after step ", position_.step, "; run the same command to go on");
  }
  if (trace_) trace_->finish();
  context_.transport.world().barrier();
  return stopped ? kExitResume : 0;
}

// On a device the host queues a step's gradients while the device is still busy with the step before, whose
// report it needs only for the learning rate of this one's update.
bool Trainer::step() {
  if (trace_) trace_->begin_step();
  const auto start = Clock::now();
  auto& ledger = context_.transport.world().ledger();
  ledger.set_activity("data/next_batch");
  const auto batches = step_batches(data_.train, plan_, position_.samples);
  ledger.set_activity("train/step");
  const auto agreed = engine_.agree(valid_targets(batches), stop_wanted());
  if (agreed.flag) {
    finish_step();
    return false;
  }
  auto loss = engine_.accumulate(batches, agreed.sum);
  finish_step();
  ledger.set_activity("train/update");
  const double lr = lr_at(schedule_, position_.step);
  auto report = engine_.begin_update(loss, lr);
  position_.samples += config_.train.global_batch;
  pending_.emplace(Pending{std::move(loss), std::move(report), lr, position_.samples, start});
  if (engine_.options().device.kind == DeviceKind::cpu) finish_step();
  return true;
}

void Trainer::finish_step() {
  if (!pending_) return;
  const auto report = pending_->report.get();
  const auto now = Clock::now();
  const std::chrono::duration<double> took = now - std::max(pending_->start, last_finish_);
  last_finish_ = now;
  position_.step = report.steps;
  position_.skipped = report.skipped;
  const auto step = *std::exchange(pending_, std::nullopt);
  after_step(step, report, took.count());
}

void Trainer::watch_skips(const StepReport& report) {
  skips_in_row_ = report.applied ? 0 : skips_in_row_ + 1;
  if (report.applied) return;
  log_.warn("update refused (", report.skipped, " so far): ",
            std::isfinite(report.grad_norm) ? "the step had no targets" : "the gradient norm is not finite");
  if (skips_in_row_ > config_.train.max_skips)
    throw Error(str(skips_in_row_, " updates in a row were refused, train.max_skips is ",
                    config_.train.max_skips, ": the loss has diverged or the data has no targets"));
}

void Trainer::after_step(const Pending& step, const StepReport& report, double seconds) {
  watch_skips(report);
  mean_step_seconds_ = mean_step_seconds_ == 0 ? seconds : 0.9 * mean_step_seconds_ + 0.1 * seconds;
  if (!leads_) return;
  const auto sequence = sequence_length(config_);
  const auto tokens = config_.train.global_batch * sequence;
  const StepMetrics metrics{
      .step = position_.step,
      .samples = step.samples,
      .loss = step.loss.mean(),
      .grad_norm = report.grad_norm,
      .lr = step.lr,
      .tokens = tokens,
      .valid_tokens = step.loss.valid_tokens,
      .step_seconds = seconds,
      .devices = devices_,
      .model_flops = model_flops_per_token(config_.model, sequence) * static_cast<double>(tokens),
      .peak_flops = peak_flops_,
      .memory_peak_bytes = engine_.memory().report().peak_total,
      .skipped = report.skipped};
  metrics_->write(metrics);
  show(metrics);
}

void Trainer::show(const StepMetrics& m) {
  const auto done = attempts_done(), left = config_.run.steps - done;
  const ProgressFacts facts{.attempt = done,
                            .attempts = config_.run.steps,
                            .loss = m.loss,
                            .grad_norm = m.grad_norm,
                            .lr = m.lr,
                            .tokens_per_second = static_cast<double>(m.tokens) / m.step_seconds,
                            .seconds_left = static_cast<double>(left) * mean_step_seconds_};
  bar_.show(facts);
  if (!bar_.enabled() && (done % config_.log.every == 0 || left == 0)) log_.info(progress_line(facts));
}

void Trainer::evaluate() {
  if (!data_.valid) return;
  context_.transport.world().ledger().set_activity("evaluate");
  auto plan = plan_;
  plan.global_batch = std::min(plan.global_batch, data_.valid->samples());
  finish_step();
  double sum = 0;
  std::int64_t valid_tokens = 0;
  for (std::int64_t b = 0; b < config_.data.eval_batches && b * plan.global_batch < data_.valid->samples();
       ++b) {
    const auto batches = step_batches(*data_.valid, plan, b * plan.global_batch);
    const auto loss = engine_.evaluate(batches, engine_.agree(valid_targets(batches), false).sum);
    sum += loss.sum();
    valid_tokens += loss.valid_tokens;
  }
  if (!leads_) return;
  const double mean = valid_tokens == 0 ? 0 : sum / static_cast<double>(valid_tokens);
  bar_.clear();
  metrics_->write(ValidMetrics{
      .step = position_.step, .samples = position_.samples, .loss = mean, .valid_tokens = valid_tokens});
  log_.info("validation after step ", position_.step, ": loss ", mean, " over ", valid_tokens, " tokens");
}

void Trainer::save() {
  finish_step();
  if (saved_step_ == position_.step) return;  // a second save at the same step would not differ in weights
  context_.transport.world().ledger().set_activity("checkpoint/save");
  PosixFileSystem fs;
  const auto start = Clock::now();
  const auto tensors = state_tensors(engine_);
  const auto saved =
      fivefold::save(fs, directory_.checkpoints(), run_state(config_, position_, data_.identity), tensors,
                     context_.transport.world(), save_options(config_));
  saved_step_ = position_.step;
  if (!leads_) return;
  bar_.clear();
  log_.info("saved ", saved.dir.string(), " in ", format_seconds(seconds_since(start)));
  std::vector<Path> spared{saved.dir};
  if (position_.resumed_from) spared.push_back(*position_.resumed_from);
  // What cannot be deleted must not end a run that has just saved.
  const auto failure =
      failure_of([&] { prune_steps(fs, directory_.checkpoints(), config_.checkpoint.keep, spared); });
  if (!failure.empty()) log_.warn("older checkpoints were kept: ", failure);
}

}  // namespace fivefold
