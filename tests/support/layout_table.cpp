// The table.
#include "tests/support/layout_table.h"

namespace fivefold::test {

namespace {

Layout layout(MeshShape mesh, int zero = 1, CpStrategy strategy = CpStrategy::ring) {
  Layout l{.mesh = mesh, .strategy = strategy};
  l.stage.zero.stage = zero;
  return l;
}

Layout piped(MeshShape mesh, ScheduleKind schedule, int chunks = 1, int zero = 1) {
  auto l = layout(mesh, zero);
  l.pipeline = {.schedule = schedule, .chunks = chunks, .stage_layers = {}};
  return l;
}

Layout with_micro_batch(Layout l, std::int64_t micro_batch) {
  l.micro_batch = micro_batch;
  return l;
}

Layout reduced_each_micro_batch(Layout l) {
  l.stage.zero.reduce_each_micro_batch = true;
  return l;
}

Layout recomputed(Layout l, RecomputePolicy policy) {
  l.stage.recompute = policy;
  return l;
}

}  // namespace

std::vector<Layout> layouts_of_eight() {
  using enum ScheduleKind;
  return {layout({.shard = 8}, 3),
          with_micro_batch(layout({.replicate = 2, .shard = 4}, 2), 2),
          layout({.shard = 2, .tp = 4}, 1),
          recomputed(layout({.shard = 4, .tp = 2}, 3), RecomputePolicy::full),
          layout({.cp = 8}),
          with_micro_batch(layout({.cp = 4, .tp = 2}, 1, CpStrategy::gather), 2),
          layout({.shard = 2, .cp = 2, .tp = 2}, 3, CpStrategy::ulysses),
          piped({.pp = 4, .shard = 2}, one_f_one_b),
          piped({.pp = 4, .tp = 2}, gpipe),
          piped({.pp = 2, .shard = 2, .tp = 2}, zb_h1, 1, 3),
          piped({.pp = 2, .cp = 2, .tp = 2}, interleaved, 2),
          piped({.pp = 2, .replicate = 2, .tp = 2}, zb_v, 2),
          reduced_each_micro_batch(piped({.pp = 2, .replicate = 2, .shard = 2}, one_f_one_b, 1, 2)),
          recomputed(piped({.pp = 2, .shard = 2, .cp = 2}, one_f_one_b), RecomputePolicy::selective)};
}

}  // namespace fivefold::test
