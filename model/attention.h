// Causal self-attention: qkv product, split with positions, softmax attention over whole sequences, output
// product.
#pragma once
#include "model/kv_cache.h"
#include "model/linear.h"
#include "model/qkv_split.h"
#include "parallel/context/context_attention.h"

namespace fivefold {

class Attention {
 public:
  struct Saved {
    ColumnLinear::Saved qkv;
    QkvSplit::Saved split;
    ContextAttention::Saved attention;
    RowLinear::Saved projection;
    KvCache* past = nullptr;  // generation: the rows before these; forward only
  };
  struct Params {
    Param *q, *k, *v, *q_bias, *k_bias, *v_bias, *q_norm, *k_norm, *out,
        *out_bias;  // biases and norms may be null
  };
  Attention(const ModelConfig& config, const Params& params, const Tensor& cos, const Tensor& sin,
            CpStrategy strategy = CpStrategy::ring);
  Tensor forward(const Run& run, const Tensor& x, const TokenRows& rows,
                 Saved& saved) const;  // [T/tp, D] -> same
  Tensor backward_input(const Run& run, const Tensor& dy, const TokenRows& rows,
                        Saved& saved) const;  // [T/tp, D] -> same
  void backward_weight(const Run& run, Saved& saved) const;

 private:
  Param* q_;
  ColumnLinear qkv_;
  QkvSplit split_;
  ContextAttention attention_;
  RowLinear projection_;
};

}  // namespace fivefold
