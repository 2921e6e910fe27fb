// How a run begins: fresh, from given weights (run.init), or where a checkpoint left off (run.resume).
#pragma once
#include <optional>

#include "checkpoint/load.h"
#include "core/log.h"
#include "launcher/engine.h"
#include "launcher/options.h"
#include "launcher/run_directory.h"

namespace fivefold {

// Where training stands.
struct TrainPosition {
  std::int64_t samples = 0;  // consumed
  std::int64_t step = 0;     // applied updates
  std::int64_t skipped = 0;  // refused updates
  std::optional<Path> resumed_from;
};

// What must not change when a run goes on, beside the configuration itself.
struct DataIdentity {
  std::string data_hash;  // of data.train
  std::string tokenizer_hash;
};

// Compares a checkpoint's run with this one. Throws UserError for a change of [model], run.seed, data.train
// (by hash), data.sequence, data.documents or data.order that run.allow_change does not name; other changes
// are reported to `log`, a changed learning rate with both rates now, 1000 steps on and at the end.
void check_resume(const RunState& stored, const Config& now, const DataIdentity& data, const Log& log);

// Fills the engine. Collective. Throws UserError where run.resume or run.init names nothing usable.
TrainPosition begin_run(Engine& engine, const Config& config, const RunDirectory& directory,
                        const DataIdentity& data, const Log& log);

// What a checkpoint says beside tensors.
RunState run_state(const Config& config, const TrainPosition& position, const DataIdentity& data);

}  // namespace fivefold
