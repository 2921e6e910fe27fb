// One rank's training run: from the first batch to the last checkpoint.
#pragma once
#include "core/log.h"
#include "launcher/batches.h"
#include "launcher/metrics.h"
#include "launcher/progress.h"
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
  bool step();  // false: a stop was asked for, nothing was done
  void after_step(const StepLoss& loss, const StepReport& report, double lr, double seconds);
  void watch_skips(const StepReport& report);
  void show(const StepMetrics& metrics);
  void evaluate();
  void save();
  bool stop_wanted() const;
  std::int64_t attempts_done() const { return position_.step + position_.skipped; }

  const ResolvedConfig& resolved_;
  const Config& config_;
  const StopSignals& signals_;
  RankContext& context_;
  bool leads_;  // world rank 0 writes what the run shows
  RunDirectory directory_;
  TrainData data_;
  Engine engine_;
  TrainPosition position_;
  Log log_;
  BatchPlan plan_;
  LrSchedule schedule_;
  std::optional<MetricsFile> metrics_;
  ProgressBar bar_;
  std::int64_t skips_in_row_ = 0;
  std::optional<std::int64_t> saved_step_;  // the newest checkpoint's
  double mean_step_seconds_ = 0;
};

}  // namespace fivefold
