#include "data/micro_batch.h"

#include <algorithm>

#include "core/error.h"
#include "core/types.h"

namespace fivefold {
namespace {

// Copies row `from` of a batch whose indices grow by `shift`.
void append_row(MicroBatch& to, const MicroBatch& batch, std::int64_t from, std::int32_t shift) {
  const auto row = static_cast<std::size_t>(from);
  to.tokens.push_back(batch.tokens[row]);
  to.targets.push_back(batch.targets[row]);
  to.position.push_back(batch.position[row]);
  to.q_index.push_back(batch.q_index[row] + shift);
  to.first_visible.push_back(batch.first_visible[row] + shift);
  to.k_index.push_back(batch.k_index[row] + shift);
  to.valid_targets += batch.targets[row] >= 0;
}

}  // namespace

void append_padding_row(MicroBatch& batch, std::int32_t index) {
  batch.tokens.push_back(0);
  batch.targets.push_back(-1);
  batch.position.push_back(0);
  batch.q_index.push_back(index);
  batch.first_visible.push_back(index + 1);
  batch.k_index.push_back(index);
}

std::int64_t padded_sequence(std::int64_t sequence, std::int64_t cp) {
  return cp == 1 ? sequence : round_up(sequence, 2 * cp);
}

std::vector<std::int32_t> context_rows(std::int64_t sequences, std::int64_t sequence, std::int64_t cp_rank,
                                       std::int64_t cp, ContextCut cut) {
  FF_CHECK(cp >= 1 && cp_rank >= 0 && cp_rank < cp, "context rank ", cp_rank, " of ", cp);
  const std::int64_t padded = padded_sequence(sequence, cp), local = padded / cp;
  const bool zigzag = cut == ContextCut::zigzag && cp > 1;
  const std::int64_t half = zigzag ? local / 2 : local;  // rows of the lower chunk
  const std::int64_t lower = cp_rank * half, upper = padded - (cp_rank + 1) * half;
  std::vector<std::int32_t> rows;
  rows.reserve(static_cast<std::size_t>(sequences * local));
  for (std::int64_t b = 0; b < sequences; ++b)
    for (std::int64_t j = 0; j < local; ++j)
      rows.push_back(static_cast<std::int32_t>(b * padded + (j < half ? lower + j : upper + j - half)));
  return rows;
}

MicroBatch cut_context(const MicroBatch& batch, std::int64_t cp_rank, std::int64_t cp, ContextCut cut) {
  FF_CHECK(batch.rows() == batch.sequences * batch.sequence && batch.index_end == batch.rows(),
           "a batch is cut once, first");
  if (cp == 1) return batch;
  const std::int64_t padded = padded_sequence(batch.sequence, cp);
  MicroBatch part{
      .sequences = batch.sequences, .sequence = padded / cp, .index_end = batch.sequences * padded};
  FF_CHECK(part.index_end < INT32_MAX, batch.sequences, " sequences of ", padded, " rows");
  for (const auto index : context_rows(batch.sequences, batch.sequence, cp_rank, cp, cut)) {
    const std::int64_t b = index / padded, j = index % padded;
    const auto shift = static_cast<std::int32_t>(b * (padded - batch.sequence));
    if (j < batch.sequence) {
      append_row(part, batch, b * batch.sequence + j, shift);
    } else {
      append_padding_row(part, index);
    }
  }
  return part;
}

void pad_rows(MicroBatch& batch, std::int64_t multiple) {
  const std::int64_t wanted = round_up(batch.rows(), multiple);
  FF_CHECK(batch.index_end + wanted - batch.rows() < INT32_MAX, wanted, " rows");
  for (std::int64_t index = batch.index_end; batch.rows() < wanted; ++index)
    append_padding_row(batch, static_cast<std::int32_t>(index));
}

void apply_window(MicroBatch& batch, std::int64_t window) {
  FF_CHECK(window >= 1, "window ", window);
  for (std::size_t row = 0; row < batch.tokens.size(); ++row) {
    const std::int64_t nearest = batch.q_index[row] - window + 1;
    batch.first_visible[row] =
        static_cast<std::int32_t>(std::max<std::int64_t>(batch.first_visible[row], nearest));
  }
}

}  // namespace fivefold
