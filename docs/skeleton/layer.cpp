// The block in terms of its layers.
#include "docs/skeleton/layer.h"

namespace fivefold {

Residual MlpBlock::forward(const Run& run, Residual in, const TokenRows&, Saved& saved) const {
  const auto normed = norm_.forward(run, in, saved.norm);
  in.delta = mlp_.forward(run, normed, saved.mlp);
  return in;
}

Tensor MlpBlock::backward_input(const Run& run, const Tensor& dy, const TokenRows&, Saved& saved) const {
  const auto d_normed = mlp_.backward_input(run, dy, saved.mlp);
  return norm_.backward(run, d_normed, dy, saved.norm);
}

void MlpBlock::backward_weight(const Run& run, Saved& saved) const { mlp_.backward_weight(run, saved.mlp); }

void MlpBlock::forget(Saved& saved) const {
  saved.mlp.in.x = {};
  mlp_.forget(saved.mlp);
}

void MlpBlock::restore(const Run& run, Saved& saved) const {
  saved.mlp.in.x = norm_.again(run, saved.norm);
  mlp_.restore(run, saved.mlp);
}

}  // namespace fivefold
