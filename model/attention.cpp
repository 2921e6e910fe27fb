// The attention layer in terms of its parts.
#include "model/attention.h"

namespace fivefold {

namespace {

std::vector<Param*> biases_of(const Attention::Params& p) {
  if (!p.q_bias) return {};
  return {p.q_bias, p.k_bias, p.v_bias};
}

Tensor flat(const Tensor& t) { return t.view({t.dim(0), t.shape().row_count()}); }

}  // namespace

Attention::Attention(const ModelConfig& config, const Params& p, const Tensor& cos, const Tensor& sin)
    : scale_(1 / std::sqrt(static_cast<double>(config.head_dim))),
      q_(p.q),
      qkv_({p.q, p.k, p.v}, biases_of(p)),
      split_(config, p.q_norm, p.k_norm, cos, sin),
      projection_(p.out, p.out_bias) {}

Tensor Attention::forward(const Run& run, const Tensor& x, const TokenRows& rows, Saved& saved) const {
  const auto packed = qkv_.forward(run, x, saved.qkv);
  saved.heads = split_.forward(run, packed, q_->weight.dim(0), rows, saved.split);
  const auto& [q, k, v] = saved.heads;
  saved.out = run.activation({q.dim(0), q.dim(1), v.dim(2)});
  saved.lse = run.empty({q.dim(0), q.dim(1)}, run.accum());
  run(AttentionForward{.q = q, .k = k, .v = v, .q_index = rows.q_index, .first_visible = rows.first_visible,
                       .k_index = rows.k_index, .out = saved.out, .lse = saved.lse, .scale = scale_,
                       .visible_pairs = rows.visible_pairs});
  return projection_.forward(run, flat(saved.out), saved.projection);
}

Tensor Attention::backward_input(const Run& run, const Tensor& dy, const TokenRows& rows, Saved& saved) const {
  const auto d_out = projection_.backward_input(run, dy, saved.projection).view(saved.out.shape());
  const auto& [q, k, v] = saved.heads;
  const Qkv d{run.activation(q.shape()), run.activation(k.shape()), run.activation(v.shape())};
  run(AttentionBackward{.q = q, .k = k, .v = v, .q_index = rows.q_index, .first_visible = rows.first_visible,
                        .k_index = rows.k_index, .out = saved.out, .lse = saved.lse, .d_out = d_out, .dq = d.q,
                        .dk = d.k, .dv = d.v, .scale = scale_, .visible_pairs = rows.visible_pairs});
  saved.heads = {};
  saved.out = saved.lse = {};
  return qkv_.backward_input(run, split_.backward(run, d, rows, saved.split), saved.qkv);
}

void Attention::backward_weight(const Run& run, Saved& saved) const {
  projection_.backward_weight(run, saved.projection);
  qkv_.backward_weight(run, saved.qkv);
}

}  // namespace fivefold
