// Fresh start, weights from elsewhere, or a checkpoint: decided alike on all ranks.
#include "launcher/resume.h"

#include <algorithm>
#include <array>

#include "checkpoint/steps.h"
#include "launcher/hf_weights.h"
#include "launcher/model_state.h"
#include "model/lr_schedule.h"

namespace fivefold {

namespace {

constexpr std::array<std::string_view, 4> kFixedKeys{"run.seed", "data.sequence", "data.documents",
                                                     "data.order"};

bool fixed(const std::string& name) {
  return name.rfind("model.", 0) == 0 ||
         std::find(kFixedKeys.begin(), kFixedKeys.end(), name) != kFixedKeys.end();
}

bool allowed(const Config& config, const std::string& name) {
  const auto& list = config.run.allow_change;
  return std::find(list.begin(), list.end(), name) != list.end();
}

[[noreturn]] void refuse(const Change& change) {
  throw UserError(str(change.name, " is fixed for a run: the checkpoint has ", change.before,
                      ", this configuration ", change.after,
                      "; restore it, or allow it with run.allow_change=", change.name));
}

void report_schedule(const Config& before, const Config& now, std::int64_t step, const Log& log) {
  const auto old_schedule = lr_schedule(before), new_schedule = lr_schedule(now);
  for (const auto at : {step, step + 1000, std::max(now.run.steps - 1, step)})
    log.info("learning rate of update ", at, ": ", lr_at(old_schedule, at), " before, ",
             lr_at(new_schedule, at), " now");
}

RunState load_weights(Engine& engine, FileSystem& fs, const Path& path, const LoadOptions& options) {
  const auto wanted = master_tensors(engine);
  return load(fs, path, wanted, engine.mesh().world(), options).state;
}

// Unfinished directories of a killed job; a checkpoint caught while it was replaced gets its name back. On
// rank 0, before anyone looks for a checkpoint.
void clear_what_was_left(FileSystem& fs, const Path& root, Communicator& world, const Log& log) {
  from_rank_0(&world, "clearing old directories", [&] {
    for (const auto& removed : clear_leftovers(fs, root))
      log.info("cleared ", removed.string(), ", left by a job that was killed");
    return std::string();
  });
}

TrainPosition from_init(Engine& engine, const Config& config, const Log& log) {
  PosixFileSystem fs;
  const Path path = config.run.init;
  if (is_hf_folder(path)) {
    load_hf_weights(engine, path);
  } else {
    const auto dir = resolve_checkpoint(fs, path, [&](const std::string& text) { log.warn(text); });
    load_weights(engine, fs, dir,
                 {.prefixes = {"model/"}, .allow_missing = config.checkpoint.allow_missing, .convert = true});
  }
  masters_changed(engine);
  log.info("weights from ", path.string(), ", step 0, fresh moments");
  return {};
}

}  // namespace

RunState run_state(const Config& config, const TrainPosition& position, const DataIdentity& data) {
  return {.step = position.step,
          .samples = position.samples,
          .seed = config.run.seed,
          .config = to_text(config),
          .data_hash = data.data_hash,
          .tokenizer_hash = data.tokenizer_hash,
          .extra = {{"skipped", std::to_string(position.skipped)}}};
}

void check_resume(const RunState& stored, const Config& now, const DataIdentity& data, const Log& log) {
  const auto before = resolve(parse_config_text(stored.config, "the checkpoint's configuration")).config;
  bool schedule_changed = before.run.steps != now.run.steps;
  for (const auto& change : changes(before, now)) {
    if (fixed(change.name) && !allowed(now, change.name)) refuse(change);
    if (change.name.rfind("optimizer.", 0) == 0) schedule_changed = true;
    if (change.name != "data.train") log.info(change.name, " was ", change.before, ", is now ", change.after);
  }
  if (stored.data_hash != data.data_hash && !allowed(now, "data.train"))
    throw UserError(str("data.train is fixed for a run: the checkpoint was trained on data with hash ",
                        stored.data_hash, ", '", now.data.train, "' has ", data.data_hash,
                        "; restore it, or allow it with run.allow_change=data.train"));
  if (schedule_changed) report_schedule(before, now, stored.step, log);
}

TrainPosition begin_run(Engine& engine, const Config& config, const RunDirectory& directory,
                        const DataIdentity& data, const Log& log) {
  engine.initialize({.seed = config.run.seed});
  PosixFileSystem fs;
  const auto wanted = state_tensors(engine);
  const LoadOptions options{
      .allow_missing = config.checkpoint.allow_missing,
      .accept = [&](const RunState& stored) { check_resume(stored, config, data, log); }};
  const Warn warn = [&](const std::string& text) { log.warn(text); };
  std::optional<Loaded> loaded;
  if (config.run.resume == "auto") {
    clear_what_was_left(fs, directory.checkpoints(), engine.mesh().world(), log);
    loaded = load_newest(fs, directory.checkpoints(), wanted, engine.mesh().world(), options, warn);
  } else if (config.run.resume != "never") {
    loaded =
        load(fs, resolve_checkpoint(fs, config.run.resume, warn), wanted, engine.mesh().world(), options);
  }
  if (!loaded) return config.run.init.empty() ? TrainPosition{} : from_init(engine, config, log);
  const auto skipped =
      loaded->state.extra.count("skipped") ? std::stoll(loaded->state.extra.at("skipped")) : 0;
  engine.optimizer().set_counts(engine.run(), loaded->state.step, skipped);
  engine.shards_changed();
  log.info("resumed from ", loaded->dir.string(), ": step ", loaded->state.step, ", ", loaded->state.samples,
           " samples");
  return {.samples = loaded->state.samples,
          .step = loaded->state.step,
          .skipped = skipped,
          .resumed_from = loaded->dir};
}

}  // namespace fivefold
