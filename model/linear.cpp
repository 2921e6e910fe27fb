// Column and row linears: the products, the row moves around them, and their gradients.
#include "model/linear.h"

namespace fivefold {

namespace {

Tensor joined_of(const std::vector<Param*>& params, Tensor Param::*member) {
  if (params.empty()) return {};
  std::vector<Tensor> parts;
  for (const auto* p : params) parts.push_back(p->*member);
  return joined(parts);
}

}  // namespace

Tensor ColumnLinear::forward(const Run& run, const Tensor& x, Saved& saved) const {
  saved.x = x;
  const auto rows = gather_rows(run, x);
  const auto w = joined_of(weights_, &Param::weight);
  auto y = run.activation({rows.dim(0), w.dim(0)});
  run(Gemm{.a = rows, .b = w, .c = y, .bias = joined_of(biases_, &Param::weight), .transpose_b = true});
  return y;
}

Tensor ColumnLinear::backward_input(const Run& run, const Tensor& dy, Saved& saved) const {
  saved.dy = dy;
  const auto w = joined_of(weights_, &Param::weight);
  auto dx = run.activation({dy.dim(0), w.dim(1)});
  run(Gemm{.a = dy, .b = w, .c = dx});
  return reduce_scatter_rows(run, dx);
}

void ColumnLinear::backward_weight(const Run& run, Saved& saved) const {
  const auto rows = gather_rows(run, saved.x);
  run(Gemm{.a = saved.dy,
           .b = rows,
           .c = joined_of(weights_, &Param::gradient),
           .transpose_a = true,
           .beta = first_sum(weights_) ? 0.0 : 1.0});
  if (!biases_.empty()) run(BiasGradient{.dy = saved.dy, .d_bias = joined_of(biases_, &Param::gradient)});
  saved = {};
}

Tensor RowLinear::forward(const Run& run, const Tensor& x, Saved& saved) const {
  saved.x = x;
  const bool adds_bias = bias_ && run.mesh.coordinate(Axis::tp) == 0;
  auto y = run.activation({x.dim(0), weight_->weight.dim(0)});
  run(Gemm{.a = x,
           .b = weight_->weight,
           .c = y,
           .bias = adds_bias ? bias_->weight : Tensor{},
           .transpose_b = true});
  return reduce_scatter_rows(run, y);
}

Tensor RowLinear::backward_input(const Run& run, const Tensor& dy, Saved& saved) const {
  saved.dy = dy;
  const auto rows = gather_rows(run, dy);
  auto dx = run.activation({rows.dim(0), weight_->weight.dim(1)});
  run(Gemm{.a = rows, .b = weight_->weight, .c = dx});
  return dx;
}

void RowLinear::backward_weight(const Run& run, Saved& saved) const {
  const auto rows = gather_rows(run, saved.dy);
  run(Gemm{.a = rows,
           .b = saved.x,
           .c = weight_->gradient,
           .transpose_a = true,
           .beta = first_sum({&weight_, 1}) ? 0.0 : 1.0});
  if (bias_) run(BiasGradient{.dy = saved.dy, .d_bias = bias_->gradient});
  saved = {};
}

}  // namespace fivefold
