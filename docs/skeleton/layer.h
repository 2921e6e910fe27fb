// A pre-norm block without attention: x + mlp(norm(x)).
#pragma once
#include "model/layer.h"
#include "model/mlp.h"
#include "model/norm_layer.h"

namespace fivefold {

class MlpBlock {
 public:
  struct Saved {
    NormLayer::Saved norm;
    Mlp::Saved mlp;
  };
  MlpBlock(NormLayer norm, Mlp mlp) : norm_(std::move(norm)), mlp_(std::move(mlp)) {}
  Residual forward(const Run& run, Residual in, const TokenRows& rows, Saved& saved) const;
  Tensor backward_input(const Run& run, const Tensor& dy, const TokenRows& rows, Saved& saved) const;
  void backward_weight(const Run& run, Saved& saved) const;
  void forget(Saved& saved) const;
  void restore(const Run& run, Saved& saved) const;

 private:
  NormLayer norm_;
  Mlp mlp_;
};
static_assert(BlockLayer<MlpBlock>);

}  // namespace fivefold
