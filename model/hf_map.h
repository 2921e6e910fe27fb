// Which rows of which Hugging Face tensor are which rows of which parameter of ours. Pure data, read in both
// directions: an import copies theirs to ours, an export ours to theirs.
#pragma once
#include <string>
#include <vector>

#include "core/types.h"
#include "model/config.h"

namespace fivefold {

// Files keep one tensor an expert; transformers in memory, and the gradients of reference trajectories, keep
// all experts of a layer in one ([E, gate rows then up rows, hidden] and [E, hidden, width]).
enum class HfExperts : std::uint8_t { apart, together };

// Rows [their_row, their_row + rows) of their tensor are rows [our_row, our_row + rows) of ours. Their tensor
// counts as a matrix: all dims but the last fold into rows, and `transposed` ([in, out] in the file) turns it
// first. A rank-1 tensor has one-element rows.
struct HfPiece {
  std::string theirs;
  Shape their_shape;  // as the file has it
  std::string ours;
  std::int64_t their_row = 0, our_row = 0, rows = 0;
  bool transposed = false;
};

// All pieces, in our parameter order; each of our elements and each of theirs occurs exactly once. Throws
// UserError for a parameter that the family's files have no name for (a bias, a norm), naming it.
std::vector<HfPiece> hf_map(const ModelConfig& config, HfExperts experts = HfExperts::apart);

// The name that hf_map uses for a tensor of a file: GPT-2 files also come without the leading "transformer.".
std::string hf_canonical_name(const ModelConfig& config, const std::string& name);
// True for tensors of a file that hold nothing to load: attention masks, rotary tables, the copy of a tied
// embedding.
bool hf_is_redundant(const ModelConfig& config, const std::string& canonical_name);

}  // namespace fivefold
