// One op each way; LayerNorm where there is a bias.
#include "model/norm_layer.h"

namespace fivefold {

NormForward NormLayer::op(const Run& run, const Tensor& x, Saved& saved) const {
  const auto rows = x.dim(0);
  saved.rstd = run.empty({rows}, run.accum());
  if (bias_) saved.mean = run.empty({rows}, run.accum());
  return {.x = x,
          .weight = weight_->weight,
          .bias = bias_ ? bias_->weight : Tensor{},
          .y = run.activation(x.shape()),
          .mean = saved.mean,
          .rstd = saved.rstd,
          .eps = eps_,
          .layer = bias_ != nullptr};
}

Tensor NormLayer::forward(const Run& run, Residual& stream, Saved& saved) const {
  auto norm = op(run, stream.x, saved);
  if (stream.delta) {
    norm.delta = std::exchange(stream.delta, {});
    norm.sum = stream.x = run.activation(stream.x.shape());
  }
  run(norm);
  saved.x = stream.x;
  return norm.y;
}

Tensor NormLayer::again(const Run& run, const Saved& saved) const {
  Saved unused;
  const auto norm = op(run, saved.x, unused);
  run(norm);
  return norm.y;
}

Tensor NormLayer::backward(const Run& run, const Tensor& dy, const Tensor& residual, Saved& saved) const {
  auto dx = run.activation(dy.shape());
  run(NormBackward{.x = saved.x,
                   .weight = weight_->weight,
                   .mean = saved.mean,
                   .rstd = saved.rstd,
                   .dy = dy,
                   .residual = residual,
                   .dx = dx,
                   .d_weight = weight_->gradient,
                   .d_bias = bias_ ? bias_->gradient : Tensor{},
                   .layer = bias_ != nullptr});
  saved = {};
  return dx;
}

}  // namespace fivefold
