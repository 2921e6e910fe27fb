// The token files of a run, opened and checked against the model.
#pragma once
#include <optional>

#include "launcher/config.h"
#include "launcher/resume.h"

namespace fivefold {

struct TrainData {
  Sampler train;
  std::optional<Sampler> valid;  // in sequential order
  DataIdentity identity;
};

// Throws UserError for files that are missing, empty, too short for a sequence, of a vocabulary larger than
// the model's, or made by another tokenizer than data.tokenizer names.
TrainData open_train_data(const Config& config);

}  // namespace fivefold
