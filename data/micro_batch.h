// One micro-batch on the host, and the pure functions that cut and pad it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace fivefold {

// Rows are sequence-major: `sequences` x `sequence` rows, then what pad_rows added. Indices count rows of the
// whole micro-batch, before any context cut and with every sequence padded as the cut pads it: sequence b
// begins at b x padded length. Key j is visible to row i iff first_visible[i] <= k_index[j] <= q_index[i]. A
// padding row has token 0, position 0, no target and sees nothing (first_visible > q_index).
struct MicroBatch {
  std::int64_t sequences = 0;
  std::int64_t sequence = 0;                  // rows of each sequence here
  std::int64_t index_end = 0;                 // every index of the sequences, on any rank, is below it
  std::int64_t valid_targets = 0;             // rows here that have a target
  std::vector<std::int32_t> tokens{};         // [rows]
  std::vector<std::int32_t> targets{};        // [rows], the next token; -1: none
  std::vector<std::int32_t> position{};       // [rows], for rotary and learned embeddings
  std::vector<std::int32_t> q_index{};        // [rows]
  std::vector<std::int32_t> first_visible{};  // [rows]
  std::vector<std::int32_t> k_index{};        // [rows]

  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.size()); }
  bool operator==(const MicroBatch&) const = default;
};

// Appends a padding row whose index is `index`.
void append_padding_row(MicroBatch& batch, std::int32_t index);

// How a sequence is dealt to context ranks. zigzag: of 2*cp chunks rank r takes r and 2*cp-1-r, so causal
// work is even. contiguous: of cp chunks rank r takes r.
enum class ContextCut : std::uint8_t { zigzag, contiguous };

// Length of a sequence once padded for cp context ranks: the next multiple of 2*cp; unchanged for cp = 1.
std::int64_t padded_sequence(std::int64_t sequence, std::int64_t cp);

// Indices of the rows that a context rank holds, in its row order (so also the k_index of any peer's rows):
// sequences x padded_sequence / cp of them.
std::vector<std::int32_t> context_rows(std::int64_t sequences, std::int64_t sequence, std::int64_t cp_rank,
                                       std::int64_t cp, ContextCut cut);

// The rows of one context rank. Targets, positions and visibility were made before the cut and travel with
// their row; indices stay global. Identity for cp = 1. The batch must not be cut or row-padded yet.
MicroBatch cut_context(const MicroBatch& batch, std::int64_t cp_rank, std::int64_t cp, ContextCut cut);

// Appends padding rows until rows() is a multiple of `multiple`.
void pad_rows(MicroBatch& batch, std::int64_t multiple);

// Sliding window: a row sees itself and the window-1 keys before it, within its document. window >= 1.
void apply_window(MicroBatch& batch, std::int64_t window);

}  // namespace fivefold
