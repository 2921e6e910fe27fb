// Index arrays of attention masks.
#include "kernels/cases/masks.h"

#include <algorithm>

#include "core/error.h"

namespace fivefold::cases {
namespace {

// Row numbers, in the micro-batch, of the tokens of a rank of a zigzag ring.
std::vector<std::int64_t> zigzag_rows(std::int64_t sequences, std::int64_t length, std::int64_t ranks,
                                      std::int64_t rank) {
  const std::int64_t chunk = length / (2 * ranks);
  std::vector<std::int64_t> rows;
  for (std::int64_t b = 0; b < sequences; ++b)
    for (const auto c : {rank, 2 * ranks - 1 - rank})
      for (std::int64_t i = 0; i < chunk; ++i) rows.push_back(b * length + c * chunk + i);
  return rows;
}

void add_query(Mask& mask, std::int64_t first, std::int64_t last) {
  mask.first_visible.push_back(static_cast<double>(first));
  mask.q_index.push_back(static_cast<double>(last));
}
void add_key(Mask& mask, std::int64_t index) { mask.k_index.push_back(static_cast<double>(index)); }

}  // namespace

bool Mask::sees(std::int64_t query, std::int64_t key) const {
  const auto i = static_cast<std::size_t>(query), j = static_cast<std::size_t>(key);
  return first_visible[i] <= k_index[j] && k_index[j] <= q_index[i];
}

double Mask::visible_pairs() const {
  auto sorted = k_index;
  std::sort(sorted.begin(), sorted.end());
  double pairs = 0;
  for (std::size_t i = 0; i < q_index.size(); ++i) {
    const auto first = std::lower_bound(sorted.begin(), sorted.end(), first_visible[i]);
    pairs += static_cast<double>(
        std::max<std::ptrdiff_t>(std::upper_bound(sorted.begin(), sorted.end(), q_index[i]) - first, 0));
  }
  return pairs;
}

Mask causal_mask(std::int64_t sequences, std::int64_t length, std::int64_t window) {
  Mask mask;
  mask.name = str("causal_", sequences, "x", length, window ? str("_window_", window) : "");
  for (std::int64_t row = 0; row < sequences * length; ++row) {
    const std::int64_t start = row / length * length;
    add_query(mask, window ? std::max(start, row - window + 1) : start, row);
    add_key(mask, row);
  }
  return mask;
}

Mask full_mask(std::int64_t queries, std::int64_t keys) {
  Mask mask;
  mask.name = str("full_", queries, "x", keys);
  for (std::int64_t row = 0; row < queries; ++row) add_query(mask, 0, keys);
  for (std::int64_t row = 0; row < keys; ++row) add_key(mask, row);
  return mask;
}

Mask document_mask(std::span<const std::int64_t> document_lengths) {
  Mask mask;
  mask.name = "documents";
  std::int64_t start = 0;
  for (const auto length : document_lengths) {
    mask.name += str("_", length);
    for (std::int64_t i = 0; i < length; ++i) {
      add_query(mask, start, start + i);
      add_key(mask, start + i);
    }
    start += length;
  }
  return mask;
}

Mask padded_mask(std::int64_t length, std::span<const std::int64_t> real_lengths) {
  Mask mask;
  mask.name = str("padded_to_", length);
  std::int64_t start = 0;
  for (const auto real : real_lengths) {
    mask.name += str("_", real);
    for (std::int64_t i = 0; i < length; ++i) {
      if (i < real)
        add_query(mask, start, start + i);
      else
        add_query(mask, 0, -1);
      add_key(mask, start + i);
    }
    start += length;
  }
  return mask;
}

Mask ring_mask(std::int64_t sequences, std::int64_t length, std::int64_t ranks, std::int64_t query_rank,
               std::int64_t key_rank) {
  Mask mask;
  mask.name = str("ring_", sequences, "x", length, "_", query_rank, "_sees_", key_rank, "_of_", ranks);
  for (const auto row : zigzag_rows(sequences, length, ranks, query_rank))
    add_query(mask, row / length * length, row);
  for (const auto row : zigzag_rows(sequences, length, ranks, key_rank)) add_key(mask, row);
  return mask;
}

}  // namespace fivefold::cases
