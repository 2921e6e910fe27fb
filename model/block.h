// One transformer block, pre-norm: x + attention(norm1(x)), then + mlp(norm2(.)).
#pragma once
#include "model/attention.h"
#include "model/layer.h"
#include "model/mlp.h"
#include "model/norm_layer.h"

namespace fivefold {

class Block {
 public:
  struct Saved {
    NormLayer::Saved norm1, norm2;
    Attention::Saved attention;
    Mlp::Saved mlp;
  };
  Block(NormLayer norm1, Attention attention, NormLayer norm2, Mlp mlp)
      : norm1_(std::move(norm1)),
        attention_(std::move(attention)),
        norm2_(std::move(norm2)),
        mlp_(std::move(mlp)) {}
  Residual forward(const Run& run, Residual in, const TokenRows& rows, Saved& saved) const;
  Tensor backward_input(const Run& run, const Tensor& dy, const TokenRows& rows, Saved& saved) const;
  void backward_weight(const Run& run, Saved& saved) const;
  void forget(Saved& saved) const;
  void restore(const Run& run, Saved& saved) const;

 private:
  NormLayer norm1_;
  Attention attention_;
  NormLayer norm2_;
  Mlp mlp_;
};
static_assert(BlockLayer<Block>);

}  // namespace fivefold
