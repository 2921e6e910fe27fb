// The feed-forward part of a dense block: SwiGLU (gate and up in one product) or GELU.
#pragma once
#include "model/config.h"
#include "model/linear.h"

namespace fivefold {

class Mlp {
 public:
  struct Saved {
    ColumnLinear::Saved in;
    Tensor hidden;         // [T, 2F/tp] or [T, F/tp], before the activation
    RowLinear::Saved out;  // its x is the activation's output
  };
  struct Params {
    Param *gate, *up, *down, *gate_bias, *up_bias, *down_bias;  // gate: SwiGLU only; biases may be null
  };
  explicit Mlp(const Params& params);
  Tensor forward(const Run& run, const Tensor& x, Saved& saved) const;          // [T/tp, D] -> same
  Tensor backward_input(const Run& run, const Tensor& dy, Saved& saved) const;  // [T/tp, D] -> same
  void backward_weight(const Run& run, Saved& saved) const;
  // Selective recompute: drops the activation's output after forward, makes it again before backward.
  void forget(Saved& saved) const { saved.out.x = {}; }
  void restore(const Run& run, Saved& saved) const { saved.out.x = activate(run, saved.hidden); }

 private:
  Tensor activate(const Run& run, const Tensor& hidden) const;
  bool gated_;
  ColumnLinear in_;
  RowLinear out_;
};

}  // namespace fivefold
