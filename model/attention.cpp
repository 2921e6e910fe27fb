// The attention layer in terms of its parts.
#include "model/attention.h"

#include <cmath>

namespace fivefold {

namespace {

std::vector<Param*> biases_of(const Attention::Params& p) {
  if (!p.q_bias) return {};
  return {p.q_bias, p.k_bias, p.v_bias};
}

Tensor flat(const Tensor& t) { return t.view({t.dim(0), t.shape().row_count()}); }

AttentionRows mask_of(const TokenRows& rows) {
  return {.q_index = rows.q_index,
          .first_visible = rows.first_visible,
          .k_index = rows.k_index,
          .sequence = rows.sequence,
          .visible_pairs = rows.visible_pairs};
}

}  // namespace

Attention::Attention(const ModelConfig& config, const Params& p, const Tensor& cos, const Tensor& sin,
                     CpStrategy strategy)
    : q_(p.q),
      qkv_({p.q, p.k, p.v}, biases_of(p)),
      split_(config, p.q_norm, p.k_norm, cos, sin),
      attention_(strategy, 1 / std::sqrt(static_cast<double>(config.head_dim)), config.window),
      projection_(p.out, p.out_bias) {}

Tensor Attention::forward(const Run& run, const Tensor& x, const TokenRows& rows, Saved& saved) const {
  const auto packed = qkv_.forward(run, x, saved.qkv);
  auto heads = split_.forward(run, packed, q_->weight.dim(0), rows, saved.split);
  if (saved.past) heads = saved.past->append(run, heads);
  const auto out = attention_.forward(run, heads.q, heads.k, heads.v, mask_of(rows), saved.attention);
  return projection_.forward(run, flat(out), saved.projection);
}

Tensor Attention::backward_input(const Run& run, const Tensor& dy, const TokenRows& rows,
                                 Saved& saved) const {
  const auto d_out = projection_.backward_input(run, dy, saved.projection);
  const auto d = attention_.backward(run, d_out, saved.attention);
  return qkv_.backward_input(run, split_.backward(run, {d.q, d.k, d.v}, rows, saved.split), saved.qkv);
}

void Attention::backward_weight(const Run& run, Saved& saved) const {
  projection_.backward_weight(run, saved.projection);
  qkv_.backward_weight(run, saved.qkv);
}

}  // namespace fivefold
