// Chooses the strategy; one context rank needs none.
#include "parallel/context/context_attention.h"

#include "parallel/context/gather.h"
#include "parallel/context/ring.h"
#include "parallel/context/ulysses.h"

namespace fivefold {

namespace {
Communicator& cp_group(const Run& run) { return run.mesh.over({Axis::cp}, "activations"); }
}  // namespace

std::vector<RingStep> ContextAttention::plan(const Communicator& cp, const AttentionRows& rows) const {
  return ring_plan(cp.size(), cp.rank(), window_reach(window_, rows.sequence / 2, cp.size()));
}

Tensor ContextAttention::forward(const Run& run, const Tensor& q, const Tensor& k, const Tensor& v,
                                 const AttentionRows& rows, Saved& saved) const {
  auto& state = saved.state;
  state = {.q = q, .k = k, .v = v, .rows = rows, .out = {}, .lse = {}};
  saved.out = {q.dim(0), q.dim(1), v.dim(2)};
  saved.kv_heads = k.dim(1);
  auto& cp = cp_group(run);
  if (cp.size() == 1) {
    attend(run, scale_, run.dtype, state);
    return state.out;
  }
  switch (strategy_) {
    case CpStrategy::ring:
      ring_forward(run, cp, plan(cp, rows), scale_, state);
      break;
    case CpStrategy::gather:
      gather_forward(run, cp, scale_, state);
      break;
    case CpStrategy::ulysses:
      return ulysses_forward(run, cp, scale_, state);
  }
  return state.out;
}

AttentionGradients ContextAttention::backward(const Run& run, const Tensor& d_out, Saved& saved) const {
  const auto [state, out, kv_heads] = std::exchange(saved, {});
  const auto d = d_out.view(out);
  auto& cp = cp_group(run);
  if (cp.size() == 1) return attend_backward(run, scale_, {run.dtype, run.dtype}, d, state);
  switch (strategy_) {
    case CpStrategy::ring:
      return ring_backward(run, cp, plan(cp, state.rows), scale_, d, state);
    case CpStrategy::gather:
      return gather_backward(run, cp, scale_, d, state);
    case CpStrategy::ulysses:
      return ulysses_backward(run, cp, scale_, kv_heads, d, state);
  }
  FF_CHECK(false, "no context strategy ", static_cast<int>(strategy_));
  return {};
}

}  // namespace fivefold
