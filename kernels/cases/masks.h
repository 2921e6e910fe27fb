// Index arrays of attention masks, as the model makes them: see kernels/ops/attention.h for their meaning.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fivefold::cases {

struct Mask {
  std::string name;
  std::vector<double> q_index, first_visible;  // per query
  std::vector<double> k_index;                 // per key

  std::int64_t queries() const { return static_cast<std::int64_t>(q_index.size()); }
  std::int64_t keys() const { return static_cast<std::int64_t>(k_index.size()); }
  bool sees(std::int64_t query, std::int64_t key) const;
  double visible_pairs() const;
};

// `sequences` sequences of `length` tokens; a token sees itself and the window - 1 before it (all, with
// window 0).
Mask causal_mask(std::int64_t sequences, std::int64_t length, std::int64_t window = 0);
// Every query sees every key.
Mask full_mask(std::int64_t queries, std::int64_t keys);
// One causal sequence of documents that do not see each other.
Mask document_mask(std::span<const std::int64_t> document_lengths);
// Causal sequences padded to `length`; the padding rows see nothing.
Mask padded_mask(std::int64_t length, std::span<const std::int64_t> real_lengths);
// One step of a zigzag ring over `ranks`: queries of one rank's chunks (i and 2 ranks - 1 - i of each
// sequence), keys of another's. `length` is a multiple of 2 * ranks.
Mask ring_mask(std::int64_t sequences, std::int64_t length, std::int64_t ranks, std::int64_t query_rank,
               std::int64_t key_rank);

}  // namespace fivefold::cases
