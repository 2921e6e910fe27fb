// A checkpoint written under any layout loads under any other: weights and moments bit for bit, and training
// goes on as it would have under the first (B36, B64, B67).
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "launcher/model_state.h"
#include "tests/support/trajectory.h"

namespace fivefold {
namespace {

using test::Layout;
using test::Problem;

Problem problem_of(bool tied, DType dtype) {
  Problem p;
  p.model = tied ? test::small_gpt2() : test::small_llama();
  p.model.layers = 4;
  p.dtype = dtype;
  return p;
}

Layout layout_of(MeshShape mesh, int zero = 1, ScheduleKind schedule = ScheduleKind::one_f_one_b,
                 int chunks = 1) {
  Layout l{.mesh = mesh};
  l.stage.zero.stage = zero;
  l.pipeline = {.schedule = schedule, .chunks = chunks, .stage_layers = {}};
  return l;
}

// Every axis, growing and shrinking, uneven shards, replicated kv heads, virtual stages.
std::vector<std::pair<Layout, Layout>> pairs() {
  const auto one = layout_of({}), tp4 = layout_of({.tp = 4}), shard3 = layout_of({.shard = 3}, 3);
  const auto pp4 = layout_of({.pp = 4}), cp2 = layout_of({.shard = 2, .cp = 2}, 2),
             hsdp = layout_of({.replicate = 2, .shard = 2}, 3);
  const auto vee = layout_of({.pp = 2, .tp = 2}, 1, ScheduleKind::zb_v, 2);
  const auto loop = layout_of({.pp = 2, .shard = 2}, 3, ScheduleKind::interleaved, 2);
  const auto all = layout_of({.pp = 2, .shard = 2, .cp = 2, .tp = 2}, 3);
  return {{one, tp4},  {tp4, one},  {tp4, shard3}, {shard3, pp4}, {pp4, cp2},    {cp2, hsdp}, {hsdp, vee},
          {vee, loop}, {loop, all}, {all, one},    {one, all},    {shard3, tp4}, {pp4, vee},  {loop, tp4}};
}

struct Reached {
  test::State state;
  double next_loss = 0;
};

// Runs `body` on engines of the layout; what rank 0 has after it.
Reached on_engine(const Problem& p, const Layout& layout,
                  const std::function<void(Engine&, const BatchPlan&)>& body) {
  Reached result;
  test::on_engines(p, layout, [&](Engine& engine, const BatchPlan& plan) {
    body(engine, plan);
    Reached mine{test::state_of(engine)};
    const auto batches = test::problem_batches(p, plan, 2);
    mine.next_loss = engine.evaluate(batches, engine.agree(valid_targets(batches), false).sum).mean();
    if (engine.mesh().world().rank() == 0) result = std::move(mine);
  });
  return result;
}

void expect_reshards(const Problem& p, const Layout& from, const Layout& to,
                     const std::filesystem::path& root) {
  std::filesystem::remove_all(root);
  PosixFileSystem fs;
  const auto saved = on_engine(p, from, [&](Engine& engine, const BatchPlan& plan) {
    for (int step = 0; step < 2; ++step) {
      const auto batches = test::problem_batches(p, plan, step);
      engine.update(engine.accumulate(batches, engine.agree(valid_targets(batches), false).sum), p.lr);
    }
    save(fs, root, {.step = 2, .samples = 2 * p.global_batch, .config = "test"}, state_tensors(engine),
         engine.mesh().world());
  });
  const auto loaded = on_engine(p, to, [&](Engine& engine, const BatchPlan&) {
    load(fs, root / "step_00000002", state_tensors(engine), engine.mesh().world());
    engine.shards_changed();
  });
  const auto where = to_string(from) + " -> " + to_string(to);
  EXPECT_EQ(saved.state.weights, loaded.state.weights) << where;
  EXPECT_EQ(saved.state.masters, loaded.state.masters) << where;
  EXPECT_EQ(saved.state.m, loaded.state.m) << where;
  EXPECT_EQ(saved.state.v, loaded.state.v) << where;
  EXPECT_NEAR(saved.next_loss, loaded.next_loss, p.dtype == DType::f64 ? 1e-10 : 0.05) << where;
}

class Reshard : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Pairs, Reshard, testing::Range(0, static_cast<int>(pairs().size())));

TEST_P(Reshard, KeepsEveryBit) {
  const auto [from, to] = pairs()[static_cast<std::size_t>(GetParam())];
  const auto root = std::filesystem::path(testing::TempDir()) / str("reshard_", GetParam());
  for (const bool tied : {false, true}) expect_reshards(problem_of(tied, DType::f64), from, to, root);
  if (GetParam() % 4 == 0) expect_reshards(problem_of(false, DType::bf16), from, to, root);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace fivefold
