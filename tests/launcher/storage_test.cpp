// How the state of training is stored: a split master is a master to the last bit in every layout, what is
// saved under one storage loads under any other, and bf16 state trains about as well.
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "launcher/model_state.h"
#include "parallel/comm/thread_world.h"
#include "tests/support/trajectory.h"

namespace fivefold {
namespace {

using test::Layout;
using test::Problem;
using test::State;
using test::Tensors;

Problem bf16_problem(bool tied, std::int64_t steps) {
  Problem p;
  p.model = tied ? test::small_gpt2() : test::small_llama();
  p.dtype = DType::bf16;
  p.steps = steps;
  return p;
}

Layout layout_of(MeshShape mesh, int zero, bool each_micro_batch = false) {
  Layout l{.mesh = mesh};
  l.stage.zero.stage = zero;
  l.stage.zero.reduce_each_micro_batch = each_micro_batch;
  return l;
}

std::vector<Layout> layouts() {
  return {layout_of({}, 1),
          layout_of({.shard = 3}, 1),
          layout_of({.shard = 3}, 2),
          layout_of({.shard = 3}, 3),
          layout_of({.shard = 2, .cp = 2}, 2, true),
          layout_of({.replicate = 2, .shard = 2}, 3),
          layout_of({.pp = 2, .tp = 2}, 1),
          layout_of({.pp = 2, .shard = 2, .tp = 2}, 3)};
}

Layout with(Layout layout, StateStorage storage) {
  layout.stage.zero.storage = storage;
  return layout;
}

class SplitMaster : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Layouts, SplitMaster, testing::Range(0, static_cast<int>(layouts().size())));

// Twenty steps: losses, norms, gradients, masters and moments.
TEST_P(SplitMaster, TrainsAsAWholeOneDoes) {
  const auto layout = layouts()[static_cast<std::size_t>(GetParam())];
  for (const bool tied : {false, true}) {
    const auto p = bf16_problem(tied, 20);
    const auto whole = train(p, layout), halves = train(p, with(layout, {.master = MasterForm::remainder}));
    EXPECT_EQ(whole.loss, halves.loss) << to_string(layout);
    EXPECT_EQ(hash_of(whole), hash_of(halves)) << to_string(layout);
  }
}

// What two runs did to the loss: the fall over all steps, and the largest gap between them.
struct Courses {
  double fall = 0, gap = 0;
};
Courses courses(const test::Trajectory& a, const test::Trajectory& b) {
  Courses out{.fall = a.loss.front() - a.loss.back()};
  for (std::size_t i = 0; i < a.loss.size(); ++i)
    out.gap = std::max(out.gap, std::abs(a.loss[i] - b.loss[i]));
  return out;
}

TEST(NarrowState, TrainsNearlyAsWell) {
  const auto p = bf16_problem(false, 20);
  for (const int zero : {1, 2, 3}) {
    const auto layout = layout_of({.shard = 2}, zero);
    const auto whole = train(p, layout);
    for (const auto& storage :
         {StateStorage{.bf16_moments = true}, StateStorage{.bf16_gradients = true},
          StateStorage{.master = MasterForm::none},
          StateStorage{.master = MasterForm::remainder, .bf16_moments = true, .bf16_gradients = true}}) {
      const auto narrow = train(p, with(layout, storage));
      const auto [fall, gap] = courses(whole, narrow);
      EXPECT_GT(gap, 0) << "the storage changed nothing";
      EXPECT_GT(fall, 0.25);
      EXPECT_LT(gap, 0.1 * fall) << to_string(layout) << ", master " << static_cast<int>(storage.master)
                                 << ", moments " << storage.bf16_moments << ", gradients "
                                 << storage.bf16_gradients;
    }
  }
}

// Runs `body` on engines of the layout; rank 0's state after it.
State on_engine(const Problem& p, const Layout& layout,
                const std::function<void(Engine&, const BatchPlan&)>& body) {
  State result;
  test::on_engines(p, layout, [&](Engine& engine, const BatchPlan& plan) {
    body(engine, plan);
    auto mine = test::state_of(engine);
    if (engine.mesh().world().rank() == 0) result = std::move(mine);
  });
  return result;
}

void step(Engine& engine, const Problem& p, const BatchPlan& plan, int number) {
  const auto batches = test::problem_batches(p, plan, number);
  engine.update(engine.accumulate(batches, engine.agree(valid_targets(batches), false).sum), p.lr);
}

// Two steps under `from`, a checkpoint, and one step more under `to`.
std::pair<State, State> saved_and_loaded(const Problem& p, const Layout& from, const Layout& to,
                                         const std::filesystem::path& root, bool goes_on) {
  std::filesystem::remove_all(root);
  PosixFileSystem fs;
  const auto saved = on_engine(p, from, [&](Engine& engine, const BatchPlan& plan) {
    step(engine, p, plan, 0), step(engine, p, plan, 1);
    save(fs, root, {.step = 2, .samples = 2 * p.global_batch, .config = "test"}, state_tensors(engine),
         engine.mesh().world());
    if (goes_on) step(engine, p, plan, 2);
  });
  const auto loaded = on_engine(p, to, [&](Engine& engine, const BatchPlan& plan) {
    load(fs, root / "step_00000002", state_tensors(engine), engine.mesh().world());
    engine.optimizer().set_counts(engine.run(), 2, 0);
    engine.shards_changed();
    if (goes_on) step(engine, p, plan, 2);
  });
  return {saved, loaded};
}

Tensors rounded(Tensors t) {
  for (auto& [name, values] : t)
    for (auto& x : values) x = static_cast<double>(static_cast<float>(bf16(static_cast<float>(x))));
  return t;
}

TEST(StoredState, WholeAndSplitMastersGoOnFromEachOther) {
  const auto root = std::filesystem::path(testing::TempDir()) / "storage_split";
  const auto p = bf16_problem(true, 3);
  const auto whole = layout_of({.shard = 3}, 1), halves = with(whole, {.master = MasterForm::remainder});
  const auto elsewhere = with(layout_of({.pp = 2, .tp = 2}, 3), {.master = MasterForm::remainder});
  for (const auto& [from, to] :
       {std::pair{whole, halves}, std::pair{halves, whole}, std::pair{halves, halves},
        std::pair{whole, elsewhere}, std::pair{elsewhere, whole}})
    for (const bool goes_on : {false, true}) {
      if (goes_on && from.mesh != to.mesh) continue;  // sums are added in another order there
      const auto [saved, loaded] = saved_and_loaded(p, from, to, root, goes_on);
      EXPECT_EQ(saved.weights, loaded.weights);
      EXPECT_EQ(saved.masters, loaded.masters);
      EXPECT_EQ(saved.m, loaded.m);
      EXPECT_EQ(saved.v, loaded.v);
    }
  std::filesystem::remove_all(root);
}

TEST(StoredState, NarrowStateLoadsAsItIsAndRoundsOnce) {
  const auto root = std::filesystem::path(testing::TempDir()) / "storage_narrow";
  const auto p = bf16_problem(false, 2);
  const auto whole = layout_of({.shard = 2}, 2);
  const auto narrow = with(whole, {.master = MasterForm::none, .bf16_moments = true});
  const auto [wide_saved, narrow_loaded] = saved_and_loaded(p, whole, narrow, root, false);
  EXPECT_EQ(narrow_loaded.weights, wide_saved.weights);
  EXPECT_EQ(narrow_loaded.masters, wide_saved.weights);
  EXPECT_EQ(narrow_loaded.m, rounded(wide_saved.m));
  EXPECT_EQ(narrow_loaded.v, rounded(wide_saved.v));
  const auto [narrow_saved, wide_loaded] = saved_and_loaded(p, narrow, whole, root, false);
  EXPECT_EQ(wide_loaded.weights, narrow_saved.weights);
  EXPECT_EQ(wide_loaded.masters, narrow_saved.weights);
  EXPECT_EQ(wide_loaded.m, narrow_saved.m);
  EXPECT_EQ(wide_loaded.v, narrow_saved.v);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace fivefold
