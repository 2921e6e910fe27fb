// RMSNorm or LayerNorm over the residual stream, adding the pending delta on the way.
#pragma once
#include "model/config.h"
#include "model/rows.h"
#include "parallel/mesh/param.h"
#include "parallel/run.h"

namespace fivefold {

class NormLayer {
 public:
  struct Saved {
    Tensor x;           // [T/tp, D], what was normalised
    Tensor mean, rstd;  // [T/tp]
  };
  NormLayer(Param* weight, Param* bias, double eps)
      : weight_(weight), bias_(bias), eps_(eps) {}  // bias: LayerNorm
  // Adds stream.delta into stream.x (delta becomes none) and returns the normalised sum, [T/tp, D].
  Tensor forward(const Run& run, Residual& stream, Saved& saved) const;
  // The normalised rows once more, from saved.x.
  Tensor again(const Run& run, const Saved& saved) const;
  // Gradient of the sum: `residual` (reaching it around the norm, or none) + that through the norm. Adds
  // weight gradients: they need what is read here anyway, so the norm has no weight step of its own.
  Tensor backward(const Run& run, const Tensor& dy, const Tensor& residual, Saved& saved) const;

 private:
  NormForward op(const Run& run, const Tensor& x, Saved& saved) const;
  Param* weight_;
  Param* bias_;
  double eps_;
};

}  // namespace fivefold
