// Per-head norm and rotary are one op with the split; the full-width norm (OLMo 2, OLMoE) comes between split
// and rotary.
#include "model/qkv_split.h"

namespace fivefold {

namespace {

Tensor flat(const Tensor& t) { return t.view({t.dim(0), t.shape().row_count()}); }

// RMSNorm over whole rows of one projection.
Tensor normed(const Run& run, const Tensor& x, const Param& weight, double eps, Tensor& rstd) {
  rstd = run.empty({x.dim(0)}, run.accum());
  auto y = run.activation(x.shape());
  run(NormForward{.x = flat(x), .weight = weight.weight, .y = flat(y), .rstd = rstd, .eps = eps});
  return y;
}

Tensor normed_backward(const Run& run, const Tensor& x, const Param& weight, const Tensor& rstd,
                       const Tensor& dy) {
  auto dx = run.activation(x.shape());
  run(NormBackward{.x = flat(x),
                   .weight = weight.weight,
                   .rstd = rstd,
                   .dy = flat(dy),
                   .dx = flat(dx),
                   .d_weight = weight.gradient});
  return dx;
}

}  // namespace

SplitQkvForward QkvSplit::split(const Run& run, const Tensor& packed, std::int64_t q_width) const {
  const auto rows = packed.dim(0), hd = config_.head_dim, kv_width = (packed.dim(1) - q_width) / 2;
  return {.packed = packed,
          .q = run.activation({rows, q_width / hd, hd}),
          .k = run.activation({rows, kv_width / hd, hd}),
          .v = run.activation({rows, kv_width / hd, hd}),
          .style = config_.rope_style,
          .eps = config_.norm_eps};
}

Qkv QkvSplit::forward(const Run& run, const Tensor& packed, std::int64_t q_width, const TokenRows& rows,
                      Saved& saved) const {
  auto op = split(run, packed, q_width);
  if (per_head()) {
    saved = {.packed = packed,
             .q_rstd = run.empty({packed.dim(0), op.q.dim(1)}, run.accum()),
             .k_rstd = run.empty({packed.dim(0), op.k.dim(1)}, run.accum())};
    op.q_weight = q_norm_->weight, op.k_weight = k_norm_->weight;
    op.q_rstd = saved.q_rstd, op.k_rstd = saved.k_rstd;
  }
  if (rotates() && !full_width()) op.position = rows.position, op.cos = cos_, op.sin = sin_;
  run(op);
  Qkv out{op.q, op.k, op.v};
  if (full_width()) full_forward(run, out, rows, saved);
  return out;
}

void QkvSplit::full_forward(const Run& run, Qkv& qkv, const TokenRows& rows, Saved& saved) const {
  FF_CHECK_EQ(run.mesh.size(Axis::tp), 1, "QK-norm over the full width needs whole rows");
  saved.q_raw = qkv.q, saved.k_raw = qkv.k;
  qkv.q = normed(run, saved.q_raw, *q_norm_, config_.norm_eps, saved.q_rstd);
  qkv.k = normed(run, saved.k_raw, *k_norm_, config_.norm_eps, saved.k_rstd);
  if (!rotates()) return;
  for (const auto& t : {qkv.q, qkv.k})
    run(Rotary{
        .x = t, .y = t, .position = rows.position, .cos = cos_, .sin = sin_, .style = config_.rope_style});
}

Qkv QkvSplit::full_backward(const Run& run, const Qkv& d, const TokenRows& rows, Saved& saved) const {
  if (rotates())
    for (const auto& t : {d.q, d.k})
      run(Rotary{.x = t,
                 .y = t,
                 .position = rows.position,
                 .cos = cos_,
                 .sin = sin_,
                 .style = config_.rope_style,
                 .inverse = true});
  return {normed_backward(run, saved.q_raw, *q_norm_, saved.q_rstd, d.q),
          normed_backward(run, saved.k_raw, *k_norm_, saved.k_rstd, d.k), d.v};
}

Tensor QkvSplit::backward(const Run& run, const Qkv& d, const TokenRows& rows, Saved& saved) const {
  const Qkv g = full_width() ? full_backward(run, d, rows, saved) : d;
  const auto width = g.q.shape().row_count() + g.k.shape().row_count() + g.v.shape().row_count();
  SplitQkvBackward op{.dq = g.q,
                      .dk = g.k,
                      .dv = g.v,
                      .d_packed = run.activation({g.q.dim(0), width}),
                      .style = config_.rope_style};
  if (per_head()) {
    op.packed = saved.packed, op.q_rstd = saved.q_rstd, op.k_rstd = saved.k_rstd;
    op.q_weight = q_norm_->weight, op.k_weight = k_norm_->weight;
    op.d_q_weight = q_norm_->gradient, op.d_k_weight = k_norm_->gradient;
  }
  if (rotates() && !full_width()) op.position = rows.position, op.cos = cos_, op.sin = sin_;
  run(op);
  saved = {};
  return op.d_packed;
}

}  // namespace fivefold
