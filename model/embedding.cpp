// Each tp rank looks up the ids it holds; the sum over tp, cut by rows, is the stream.
#include "model/embedding.h"

namespace fivefold {

Tensor Embedding::forward(const Run& run, const TokenRows& rows) const {
  auto part = run.activation({rows.count(), table_->global[1]});
  run(EmbeddingForward{
      .ids = rows.tokens, .table = table_->weight, .y = part, .first_row = table_->compute_box.begin[0]});
  auto x = reduce_scatter_rows(run, part);
  if (positions_)
    run(EmbeddingForward{
        .ids = own_rows(run, rows.position), .table = positions_->weight, .y = x, .accumulate = true});
  return x;
}

void Embedding::backward_weight(const Run& run, const TokenRows& rows, Saved& saved) const {
  run(EmbeddingBackward{.ids = rows.tokens,
                        .dy = gather_rows(run, saved.dy),
                        .d_table = table_->gradient,
                        .first_row = table_->compute_box.begin[0]});
  if (positions_)
    run(EmbeddingBackward{
        .ids = own_rows(run, rows.position), .dy = saved.dy, .d_table = positions_->gradient});
  saved = {};
}

}  // namespace fivefold
