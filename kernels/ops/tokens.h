// The two ends of the model: token rows in, cross entropy out. Both know which part of the vocabulary they
// hold.
#pragma once
#include "core/tensor.h"

namespace fivefold {

constexpr std::int32_t kNoTarget = -1;

// y[t] (+)= table[ids[t] - first_row] where that row exists here, else 0 (another rank adds it). Ids are not
// checked here: the loader refuses ids outside the vocabulary.
struct EmbeddingForward {
  static constexpr std::string_view kName = "embedding_forward";
  Tensor ids;    // [T] i32
  Tensor table;  // [rows, D]
  Tensor y;      // [T, D]
  std::int64_t first_row = 0;
  bool accumulate = false;  // add to y (learned positions) instead of writing it
  void check() const;
  double flops() const;
  double bytes() const;
};

// d_table[ids[t] - first_row] += dy[t], in order of t.
struct EmbeddingBackward {
  static constexpr std::string_view kName = "embedding_backward";
  Tensor ids;      // [T] i32
  Tensor dy;       // [T, D]
  Tensor d_table;  // [rows, D] accumulate dtype, added to
  std::int64_t first_row = 0;
  void check() const;
  double flops() const;
  double bytes() const;
};

// Per row of logits, over the columns this rank holds: max, sum of exp(l - max), and the target's logit (0 if
// it is not here). Columns at `columns` and beyond are padding and do not count. A part without columns gives
// (-inf, 0, 0).
struct VocabStats {
  static constexpr std::string_view kName = "vocab_stats";
  Tensor logits;                  // [R, V]
  Tensor target;                  // [R] i32, kNoTarget: none
  Tensor stats;                   // [R, 3] accumulate dtype: max, sum, target logit
  std::int64_t first_column = 0;  // global id of column 0
  std::int64_t columns = 0;       // real columns, <= V
  void check() const;
  double flops() const;
  double bytes() const;
};

// Joins the statistics of the P vocabulary parts in order, adds each row's loss (log sum exp - target logit)
// to `loss`, and turns logits into scale * d loss / d logits in place. Rows without target: loss 0, gradient
// 0.
struct CrossEntropy {
  static constexpr std::string_view kName = "cross_entropy";
  Tensor logits;    // [R, V], replaced by the gradient when `gradient`
  Tensor target;    // [R] i32
  Tensor stats;     // [P, R, 3] accumulate dtype
  Tensor loss;      // [1] f64, added to (unscaled sum over rows with a target)
  Tensor row_loss;  // [R] accumulate dtype or none, written
  std::int64_t first_column = 0;
  std::int64_t columns = 0;
  double scale = 1.0;
  bool gradient = true;
  void check() const;
  double flops() const;
  double bytes() const;
};

}  // namespace fivefold
