// The two linears of tensor parallelism (Shoeybi et al., "Megatron-LM", 2019), with sequence-parallel rows
// between them (Korthikanti et al. 2022). Weights are [out, in]; y = x W^T + b.
#pragma once
#include <vector>

#include "parallel/mesh/param.h"
#include "parallel/tensor/sequence.h"

namespace fivefold {

// Cut by output rows: own rows in, all rows with this rank's outputs out. Several parameters whose weights
// lie adjacent (q, k, v; gate, up) are one product. Saves the own rows and gathers them again for the weight
// gradient.
class ColumnLinear {
 public:
  struct Saved {
    Tensor x;   // [T/tp, in]
    Tensor dy;  // [T, out/tp]
  };
  // `biases` is empty or parallel to `weights`.
  ColumnLinear(std::vector<Param*> weights, std::vector<Param*> biases)
      : weights_(std::move(weights)), biases_(std::move(biases)) {}
  Tensor forward(const Run& run, const Tensor& x, Saved& saved) const;          // [T/tp, in] -> [T, out/tp]
  Tensor backward_input(const Run& run, const Tensor& dy, Saved& saved) const;  // [T, out/tp] -> [T/tp, in]
  void backward_weight(const Run& run, Saved& saved) const;

 private:
  std::vector<Param*> weights_, biases_;
};

// Cut by input columns: all rows with this rank's inputs in, own rows of the sum out. The first tp rank adds
// the bias inside its product, so it enters the sum once; its gradient sums the own rows, disjoint over tp.
class RowLinear {
 public:
  struct Saved {
    Tensor x;   // [T, in/tp]
    Tensor dy;  // [T/tp, out]
  };
  RowLinear(Param* weight, Param* bias) : weight_(weight), bias_(bias) {}
  Tensor forward(const Run& run, const Tensor& x, Saved& saved) const;          // [T, in/tp] -> [T/tp, out]
  Tensor backward_input(const Run& run, const Tensor& dy, Saved& saved) const;  // [T/tp, out] -> [T, in/tp]
  void backward_weight(const Run& run, Saved& saved) const;

 private:
  Param* weight_;
  Param* bias_;  // or null
};

}  // namespace fivefold
