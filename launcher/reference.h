// A stored training trajectory (--reference DIR): initial weights, tokens, and what another program computed
// from them.
#pragma once
#include <filesystem>
#include <vector>

#include "data/micro_batch.h"
#include "launcher/hf_weights.h"

namespace fivefold {

struct Reference {
  std::filesystem::path dir;
  ModelConfig model;
  // Of the run: AdamW with constant rate, decay on parameters of two or more dimensions.
  double lr = 0;
  AdamWOptions optimizer;
  std::int64_t steps = 0, batch = 0, sequence = 0;
  std::vector<std::int32_t> tokens;     // [steps, batch, sequence]
  std::vector<double> logits;           // of step 0, [batch, sequence, vocab]
  std::vector<double> loss, grad_norm;  // per step
};

// Reads everything but weights, gradients and final weights, which are read box by box. Throws UserError for
// a folder that is no trajectory.
Reference read_reference(FileSystem& fs, const std::filesystem::path& dir);

// Sequences [first, first + count) of a step as a micro-batch of `sequences`, the rest padding. Targets are
// the next token inside the sequence; the last position has none.
MicroBatch reference_batch(const Reference& reference, std::int64_t step, std::int64_t first,
                           std::int64_t count, std::int64_t sequences);

}  // namespace fivefold
