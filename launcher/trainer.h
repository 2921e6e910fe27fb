// One rank's training run: from the first batch to the last checkpoint.
#pragma once
#include <chrono>

#include "core/log.h"
#include "launcher/batches.h"
#include "launcher/metrics.h"
#include "launcher/progress.h"
#include "launcher/rank_trace.h"
#include "launcher/resume.h"
#include "launcher/signals.h"
#include "launcher/train_data.h"
#include "launcher/world.h"

namespace fivefold {

// Exit code of a run that was told to stop and saved first: resume it.
constexpr int kExitResume = 75;

class Trainer {
 public:
  // Collective. `signals` outlives the trainer.
  Trainer(const ResolvedConfig& resolved, RankContext& context, const StopSignals& signals);
  // 0, or kExitResume after a stop request. Collective.
  int run();

 private:
  TrainPosition begin();
  void announce();
  // A step whose results may be on their way from the device.
  struct Pending {
    StepLoss loss;
    PendingReport report;
    double lr = 0;
    std::int64_t samples = 0;  // consumed with it
    std::chrono::steady_clock::time_point start;
  };
  bool step();  // false: a stop was asked for, nothing was done
  void finish_step();
  void after_step(const Pending& step, const StepReport& report, double seconds);
  void watch_skips(const StepReport& report);
  void show(const StepMetrics& metrics);
  void evaluate();
  void save();
  bool stop_wanted() const;
  std::int64_t attempts_done() const { return position_.step + position_.skipped + (pending_ ? 1 : 0); }

  const ResolvedConfig& resolved_;
  const Config& config_;
  const StopSignals& signals_;
  RankContext& context_;
  bool leads_;  // world rank 0 writes what the run shows
  RunDirectory directory_;
  TrainData data_;
  std::shared_ptr<RankTrace> trace_;  // null: not traced
  Engine engine_;
  std::optional<double> peak_flops_;
  int devices_;  // of all ranks
  TrainPosition position_;
  Log log_;
  BatchPlan plan_;
  LrSchedule schedule_;
  std::optional<MetricsFile> metrics_;
  ProgressBar bar_;
  std::optional<Pending> pending_;
  std::chrono::steady_clock::time_point last_finish_{};
  std::int64_t skips_in_row_ = 0;
  std::optional<std::int64_t> saved_step_;  // the newest checkpoint's
  double mean_step_seconds_ = 0;
};

}  // namespace fivefold
