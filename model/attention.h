// Causal self-attention: qkv product, split with positions, softmax attention, output product.
#pragma once
#include <cmath>

#include "model/linear.h"
#include "model/qkv_split.h"

namespace fivefold {

class Attention {
 public:
  struct Saved {
    ColumnLinear::Saved qkv;
    QkvSplit::Saved split;
    Qkv heads;         // after positions
    Tensor out, lse;   // [T, Hq/tp, hd], [T, Hq/tp]
    RowLinear::Saved projection;
  };
  struct Params {
    Param *q, *k, *v, *q_bias, *k_bias, *v_bias, *q_norm, *k_norm, *out, *out_bias;   // biases and norms may be null
  };
  Attention(const ModelConfig& config, const Params& params, const Tensor& cos, const Tensor& sin);
  Tensor forward(const Run& run, const Tensor& x, const TokenRows& rows, Saved& saved) const;          // [T/tp, D] -> same
  Tensor backward_input(const Run& run, const Tensor& dy, const TokenRows& rows, Saved& saved) const;  // [T/tp, D] -> same
  void backward_weight(const Run& run, Saved& saved) const;

 private:
  double scale_;
  Param* q_;
  ColumnLinear qkv_;
  QkvSplit split_;
  RowLinear projection_;
};

}  // namespace fivefold
