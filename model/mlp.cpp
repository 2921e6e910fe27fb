// The MLP in terms of its linears and its activation op.
#include "model/mlp.h"

namespace fivefold {

namespace {

std::vector<Param*> present(std::initializer_list<Param*> params) {
  std::vector<Param*> out;
  for (auto* p : params)
    if (p) out.push_back(p);
  return out;
}

}  // namespace

Mlp::Mlp(const Params& p)
    : gated_(p.gate != nullptr),
      in_(present({p.gate, p.up}), present({p.gate_bias, p.up_bias})),
      out_(p.down, p.down_bias) {}

Tensor Mlp::activate(const Run& run, const Tensor& hidden) const {
  auto y = run.activation({hidden.dim(0), gated_ ? hidden.dim(1) / 2 : hidden.dim(1)});
  if (gated_)
    run(SwigluForward{.x = hidden, .y = y});
  else
    run(GeluForward{.x = hidden, .y = y});
  return y;
}

Tensor Mlp::forward(const Run& run, const Tensor& x, Saved& saved) const {
  saved.hidden = in_.forward(run, x, saved.in);
  return out_.forward(run, activate(run, saved.hidden), saved.out);
}

Tensor Mlp::backward_input(const Run& run, const Tensor& dy, Saved& saved) const {
  const auto d_active = out_.backward_input(run, dy, saved.out);
  const auto hidden = std::exchange(saved.hidden, {});
  if (gated_)
    run(SwigluBackward{.x = hidden, .dy = d_active, .dx = hidden});
  else
    run(GeluBackward{.x = hidden, .dy = d_active, .dx = hidden});
  return in_.backward_input(run, hidden, saved.in);
}

void Mlp::backward_weight(const Run& run, Saved& saved) const {
  out_.backward_weight(run, saved.out);
  in_.backward_weight(run, saved.in);
}

}  // namespace fivefold
