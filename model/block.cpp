// The block in terms of its layers. The last sum stays pending in the returned Residual: the next norm makes
// it.
#include "model/block.h"

namespace fivefold {

Residual Block::forward(const Run& run, Residual in, const TokenRows& rows, Saved& saved) const {
  const auto a = norm1_.forward(run, in, saved.norm1);
  in.delta = attention_.forward(run, a, rows, saved.attention);
  const auto m = norm2_.forward(run, in, saved.norm2);
  in.delta = mlp_.forward(run, m, saved.mlp);
  return in;
}

Tensor Block::backward_input(const Run& run, const Tensor& dy, const TokenRows& rows, Saved& saved) const {
  const auto dm = mlp_.backward_input(run, dy, saved.mlp);
  const auto middle = norm2_.backward(run, dm, dy, saved.norm2);
  const auto da = attention_.backward_input(run, middle, rows, saved.attention);
  return norm1_.backward(run, da, middle, saved.norm1);
}

void Block::backward_weight(const Run& run, Saved& saved) const {
  mlp_.backward_weight(run, saved.mlp);
  attention_.backward_weight(run, saved.attention);
}

void Block::forget(Saved& saved) const {
  saved.attention.qkv.x = {};
  saved.mlp.in.x = {};
  mlp_.forget(saved.mlp);
}

void Block::restore(const Run& run, Saved& saved) const {
  saved.attention.qkv.x = norm1_.again(run, saved.norm1);
  saved.mlp.in.x = norm2_.again(run, saved.norm2);
  mlp_.restore(run, saved.mlp);
}

}  // namespace fivefold
