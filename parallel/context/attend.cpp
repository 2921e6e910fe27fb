// The local ops on an AttentionState.
#include "parallel/context/attend.h"

namespace fivefold {

void attend(const Run& run, double scale, DType out_dtype, AttentionState& s) {
  s.out = run.empty({s.q.dim(0), s.q.dim(1), s.v.dim(2)}, out_dtype);
  s.lse = run.empty({s.q.dim(0), s.q.dim(1)}, run.accum());
  run(AttentionForward{.q = s.q,
                       .k = s.k,
                       .v = s.v,
                       .q_index = s.rows.q_index,
                       .first_visible = s.rows.first_visible,
                       .k_index = s.rows.k_index,
                       .out = s.out,
                       .lse = s.lse,
                       .scale = scale,
                       .visible_pairs = s.rows.visible_pairs});
}

AttentionGradients attend_backward(const Run& run, double scale, const GradientDTypes& dtypes,
                                   const Tensor& d_out, const AttentionState& s) {
  const AttentionGradients d{run.empty(s.q.shape(), dtypes.q), run.empty(s.k.shape(), dtypes.kv),
                             run.empty(s.v.shape(), dtypes.kv)};
  run(AttentionBackward{.q = s.q,
                        .k = s.k,
                        .v = s.v,
                        .q_index = s.rows.q_index,
                        .first_visible = s.rows.first_visible,
                        .k_index = s.rows.k_index,
                        .out = s.out,
                        .lse = s.lse,
                        .d_out = d_out,
                        .dq = d.q,
                        .dk = d.k,
                        .dv = d.v,
                        .scale = scale,
                        .visible_pairs = s.rows.visible_pairs});
  return d;
}

Tensor rounded(const Run& run, const Tensor& t) {
  if (t.dtype() == run.dtype) return t;
  auto y = run.activation(t.shape());
  run(Convert{.x = t, .y = y});
  return y;
}

void wait_all(std::vector<Work>& works, const Run& run) {
  for (auto& work : works) work.wait(run.stream);
  works.clear();
}

}  // namespace fivefold
