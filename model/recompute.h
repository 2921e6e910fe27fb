// Activation recompute is a layer around a layer. none: everything is kept. selective: outputs of norms and
// activations are made again in backward. full: only the layer's input is kept and its forward runs again in
// backward (Chen et al. 2016). The same operations on the same bits, so all three give bitwise equal
// gradients.
#pragma once
#include "model/config.h"
#include "model/layer.h"

namespace fivefold {

template <BlockLayer L>
class Recompute {
 public:
  struct Saved {
    Tensor x;                 // full: the layer's input, summed
    typename L::Saved inner;  // full: empty between forward and backward
  };
  Recompute(L inner, RecomputePolicy policy) : inner_(std::move(inner)), policy_(policy) {}

  Residual forward(const Run& run, Residual in, const TokenRows& rows, Saved& saved) const {
    if (policy_ == RecomputePolicy::full) return forward_keeping_input(run, in, rows, saved);
    auto out = inner_.forward(run, std::move(in), rows, saved.inner);
    if (policy_ == RecomputePolicy::selective) inner_.forget(saved.inner);
    return out;
  }
  Tensor backward_input(const Run& run, const Tensor& dy, const TokenRows& rows, Saved& saved) const {
    if (policy_ == RecomputePolicy::full)
      inner_.forward(run, {std::exchange(saved.x, {}), {}}, rows, saved.inner);
    if (policy_ == RecomputePolicy::selective) inner_.restore(run, saved.inner);
    return inner_.backward_input(run, dy, rows, saved.inner);
  }
  void backward_weight(const Run& run, Saved& saved) const { inner_.backward_weight(run, saved.inner); }

 private:
  Residual forward_keeping_input(const Run& run, const Residual& in, const TokenRows& rows,
                                 Saved& saved) const {
    saved.x = summed(run, in);
    typename L::Saved dropped;
    return inner_.forward(run, {saved.x, {}}, rows, dropped);
  }

  L inner_;
  RecomputePolicy policy_;
};

}  // namespace fivefold
