// What layers know about the rows of one micro-batch on one rank. T rows, the same on all ranks of a tp
// group.
#pragma once
#include "core/tensor.h"

namespace fivefold {

struct TokenRows {
  Tensor tokens;              // [T] i32
  Tensor targets;             // [T] i32, kNoTarget: none
  Tensor position;            // [T] i32, for rotary and learned embeddings
  Tensor q_index;             // [T] i32, the mask: see kernels/ops/attention.h
  Tensor first_visible;       // [T] i32
  Tensor k_index;             // [T] i32
  std::int64_t sequence = 0;  // rows of each sequence on this rank; 0: unknown
  double visible_pairs = 0;
  std::int64_t count() const { return tokens.dim(0); }
};

// The residual stream between two blocks: x + delta, not yet added, so that the next norm adds for free.
struct Residual {
  Tensor x;      // [T/tp, D]
  Tensor delta;  // [T/tp, D] or none
};

}  // namespace fivefold
