// All dense axes together. A table of layouts and a random sample of legal ones train the same model as one
// rank: loss, norm, every gradient before clipping and every weight, in f64 to 1e-10; and the launches of all
// ranks have one order.
//   FIVEFOLD_RANDOM_LAYOUTS=500 FIVEFOLD_LAYOUT_SEED=7 test_launcher
//   --gtest_filter='Composition.RandomLayouts'
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>

#include "parallel/comm/launch_order.h"
#include "tests/support/trajectory.h"

namespace fivefold {
namespace {

using test::Layout;
using test::Problem;
using test::Trajectory;

constexpr int kModels = 3;
constexpr std::int64_t kBatch = 6;

Problem problem_of(int model, bool documents = true) {
  Problem p;
  p.model = model == 0 ? test::small_llama() : model == 1 ? test::small_gpt2() : test::small_qwen3();
  p.model.layers = 4;
  p.global_batch = kBatch;
  p.steps = 3;
  p.documents = documents;
  return p;
}

const Trajectory& alone(int model, bool documents = true) {
  static std::map<std::pair<int, bool>, Trajectory> made;
  const auto [it, fresh] = made.try_emplace({model, documents});
  if (fresh) it->second = test::train(problem_of(model, documents), {});
  return it->second;
}

void expect_parity(int model, const Layout& layout, bool documents = true) {
  std::vector<std::vector<LedgerRecord>> ledgers;
  const auto got = test::train(problem_of(model, documents), layout, &ledgers);
  const auto d = test::distance(got, alone(model, documents), problem_of(model, documents));
  EXPECT_LE(d.largest(), 1e-10) << "model " << model << ", " << to_string(layout) << ": " << to_string(d);
  EXPECT_NO_THROW(check_launch_order(ledgers)) << "model " << model << ", " << to_string(layout);
}

Layout layout_of(MeshShape mesh, ScheduleKind schedule = ScheduleKind::one_f_one_b, int chunks = 1,
                 std::int64_t micro_batch = 1) {
  Layout l{.mesh = mesh, .micro_batch = micro_batch};
  l.pipeline = {.schedule = schedule, .chunks = chunks, .stage_layers = {}};
  return l;
}

Layout with_zero(Layout l, int stage, bool each = false, bool reshard = true) {
  l.stage.zero = {.stage = stage, .reduce_each_micro_batch = each, .reshard_after_use = reshard};
  return l;
}

Layout with_strategy(Layout l, CpStrategy strategy) {
  l.strategy = l.stage.cp_strategy = strategy;
  return l;
}

Layout with_recompute(Layout l, RecomputePolicy policy) {
  l.stage.recompute = policy;
  return l;
}

// Pipelines: every schedule, micro-batches fewer than, equal to and no multiple of the ranks, uneven splits
// (B34, B36).
std::vector<Layout> pipelines() {
  using enum ScheduleKind;
  return {layout_of({.pp = 2}, gpipe),
          layout_of({.pp = 2}, one_f_one_b),
          layout_of({.pp = 3}, one_f_one_b),
          layout_of({.pp = 4}, one_f_one_b),
          layout_of({.pp = 4}, gpipe, 1, 6),
          layout_of({.pp = 4}, one_f_one_b, 1, 3),
          layout_of({.pp = 4}, zb_h1, 1, 6),
          layout_of({.pp = 2}, zb_h1),
          layout_of({.pp = 3}, zb_h1, 1, 2),
          layout_of({.pp = 2}, interleaved, 2),
          layout_of({.pp = 2}, interleaved, 2, 4),
          layout_of({.pp = 2}, zb_v, 2),
          layout_of({.pp = 2}, zb_v, 2, 6)};
}

std::vector<Layout> pairs_of_axes() {
  using enum ScheduleKind;
  return {layout_of({.shard = 2, .tp = 2}),
          with_zero(layout_of({.shard = 2, .tp = 4}), 3),
          with_zero(layout_of({.replicate = 2, .shard = 2}), 2),
          with_zero(layout_of({.replicate = 2, .shard = 3}), 3, true),
          layout_of({.replicate = 2, .tp = 2}, one_f_one_b, 1, 2),
          layout_of({.pp = 2, .shard = 2}, gpipe),
          with_zero(layout_of({.pp = 2, .shard = 2}, one_f_one_b), 3),
          with_zero(layout_of({.pp = 2, .shard = 2}, zb_h1), 3, true),
          with_zero(layout_of({.pp = 2, .shard = 2}, zb_v, 2), 2, true),
          with_zero(layout_of({.pp = 2, .shard = 3}, interleaved, 2), 3, false, false),
          layout_of({.pp = 2, .tp = 2}, one_f_one_b),
          layout_of({.pp = 2, .tp = 4}, zb_h1, 1, 2),
          layout_of({.pp = 4, .tp = 2}, gpipe),
          layout_of({.pp = 2, .replicate = 2}, zb_v, 2),
          layout_of({.shard = 2, .cp = 2}),
          with_strategy(layout_of({.shard = 2, .cp = 2}), CpStrategy::gather),
          with_zero(with_strategy(layout_of({.shard = 2, .cp = 2}), CpStrategy::ulysses), 3),
          layout_of({.cp = 2, .tp = 2}),
          with_strategy(layout_of({.cp = 2, .tp = 2}), CpStrategy::ulysses),
          with_strategy(layout_of({.cp = 4, .tp = 2}), CpStrategy::gather),
          layout_of({.pp = 2, .cp = 2}, one_f_one_b),
          layout_of({.pp = 2, .cp = 4}, zb_h1),
          with_strategy(layout_of({.pp = 2, .cp = 2}, zb_v, 2), CpStrategy::gather)};
}

std::vector<Layout> three_axes_and_more() {
  using enum ScheduleKind;
  return {
      layout_of({.pp = 2, .shard = 2, .tp = 2}, one_f_one_b),
      with_zero(layout_of({.pp = 2, .shard = 2, .tp = 2}, zb_h1), 3),
      with_zero(layout_of({.pp = 2, .shard = 2, .tp = 2}, zb_v, 2), 3, true),
      layout_of({.pp = 2, .cp = 2, .tp = 2}, interleaved, 2),
      with_zero(layout_of({.shard = 2, .cp = 2, .tp = 2}), 3, true),
      with_strategy(with_zero(layout_of({.shard = 2, .cp = 2, .tp = 2}), 2), CpStrategy::ulysses),
      with_recompute(with_zero(layout_of({.pp = 2, .shard = 2, .cp = 2}, gpipe), 3), RecomputePolicy::full),
      with_recompute(layout_of({.pp = 2, .replicate = 2, .tp = 2}, one_f_one_b), RecomputePolicy::selective),
      with_zero(layout_of({.replicate = 2, .shard = 2, .tp = 2}), 3, false, false),
      with_zero(layout_of({.replicate = 2, .shard = 2, .cp = 2}), 3),
      with_zero(layout_of({.pp = 2, .shard = 2, .cp = 2, .tp = 2}, zb_h1), 3),
      with_zero(layout_of({.pp = 2, .replicate = 2, .shard = 2, .tp = 2}, interleaved, 2), 2, true),
      with_strategy(layout_of({.pp = 2, .replicate = 2, .cp = 2, .tp = 2}, one_f_one_b, 1, 2),
                    CpStrategy::gather)};
}

std::vector<Layout> table() {
  std::vector<Layout> all = pipelines();
  for (const auto& part : {pairs_of_axes(), three_axes_and_more()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

// B01, B02, B03, B04 (dense part), B06, B09, B14, B22-B24, B26, B27, B33, B38, B39, B51: each of these faults
// would show here.
class Composition : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Layouts, Composition, testing::Range(0, static_cast<int>(table().size())));

TEST_P(Composition, TrainsLikeOneRank) {
  const auto layout = table()[static_cast<std::size_t>(GetParam())];
  for (int model = 0; model < kModels; ++model) expect_parity(model, layout, GetParam() % 3 != 0);
}

TEST(CompositionTable, IsLargeEnough) {
  EXPECT_GE(table().size(), 45u);
  std::set<std::string> distinct;
  for (const auto& layout : table()) distinct.insert(to_string(layout));
  EXPECT_EQ(distinct.size(), table().size());
}

// ---- random layouts ----

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random_)];
  }

 private:
  std::mt19937_64 random_;
};

// A layout of at most 16 ranks that check() would let through for the small models (4 heads, 4 blocks).
Layout random_layout(Draw& draw) {
  using enum ScheduleKind;
  while (true) {
    const auto schedule = draw.one_of<ScheduleKind>({gpipe, one_f_one_b, interleaved, zb_h1, zb_v});
    const bool two_chunks = schedule == interleaved || schedule == zb_v;
    MeshShape mesh{.pp = draw.one_of<int>(two_chunks ? std::vector{2} : std::vector{1, 2, 3, 4}),
                   .replicate = draw.one_of<int>({1, 1, 2}),
                   .shard = draw.one_of<int>({1, 2, 3}),
                   .cp = draw.one_of<int>({1, 1, 2, 4}),
                   .tp = draw.one_of<int>({1, 2, 4})};
    if (mesh.world() > 16 || mesh.world() == 1) continue;
    auto layout = with_zero(
        layout_of(mesh, schedule, two_chunks ? 2 : 1, draw.one_of<std::int64_t>({1, 2, 3, 6})),
        draw.one_of<int>({1, 2, 3}), draw.one_of<bool>({false, true}), draw.one_of<bool>({false, true}));
    const bool zero_bubble = schedule == zb_h1 || schedule == zb_v;
    layout = with_recompute(layout,
                            draw.one_of<RecomputePolicy>(
                                zero_bubble ? std::vector{RecomputePolicy::none, RecomputePolicy::selective}
                                            : std::vector{RecomputePolicy::none, RecomputePolicy::selective,
                                                          RecomputePolicy::full}));
    const bool heads_divide = 4 / mesh.tp % mesh.cp == 0;
    layout = with_strategy(
        layout, draw.one_of<CpStrategy>(
                    heads_divide ? std::vector{CpStrategy::ring, CpStrategy::gather, CpStrategy::ulysses}
                                 : std::vector{CpStrategy::ring, CpStrategy::gather}));
    return layout;
  }
}

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(Composition, RandomLayouts) {
  const auto seed = setting("FIVEFOLD_LAYOUT_SEED", 20), count = setting("FIVEFOLD_RANDOM_LAYOUTS", 30);
  std::printf("random layouts: %llu from seed %llu\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(seed));
  Draw draw(seed);
  for (std::uint64_t i = 0; i < count; ++i) {
    const int model = draw.one_of<int>({0, 1, 2});
    const bool documents = draw.one_of<bool>({false, true});
    expect_parity(model, random_layout(draw), documents);
  }
}

// ---- bitwise equalities ----

std::uint64_t bits(int model, const Layout& layout) {
  return test::hash_of(test::train(problem_of(model), layout));
}

// Every schedule adds a stage's gradients in ascending micro-batch order, so all give the same bits, and
// those of no pipeline.
TEST(Bitwise, SchedulesAmongThemselvesAndWithoutPipeline) {
  using enum ScheduleKind;
  for (int model = 0; model < kModels; ++model) {
    std::set<std::uint64_t> hashes{bits(model, layout_of({}))};
    for (const auto& layout :
         {layout_of({.pp = 2}, gpipe), layout_of({.pp = 2}, one_f_one_b), layout_of({.pp = 4}, one_f_one_b),
          layout_of({.pp = 2}, zb_h1), layout_of({.pp = 2}, interleaved, 2), layout_of({.pp = 2}, zb_v, 2)})
      hashes.insert(bits(model, layout));
    EXPECT_EQ(hashes.size(), 1u) << "model " << model;
  }
}

TEST(Bitwise, ZeroStagesUnderAPipeline) {
  for (const bool each : {false, true}) {
    std::set<std::uint64_t> hashes;
    for (const int stage : {1, 2, 3})
      hashes.insert(bits(0, with_zero(layout_of({.pp = 2, .shard = 2, .tp = 2}), stage, each)));
    EXPECT_EQ(hashes.size(), 1u) << "each micro-batch " << each;
  }
}

TEST(Bitwise, RecomputeUnderTensorAndContextParallelism) {
  std::set<std::uint64_t> hashes;
  for (const auto policy : {RecomputePolicy::none, RecomputePolicy::selective, RecomputePolicy::full})
    hashes.insert(bits(0, with_recompute(layout_of({.pp = 2, .cp = 2, .tp = 2}), policy)));
  EXPECT_EQ(hashes.size(), 1u);
}

// Replicas keep the same bits over many steps (train() compares every holder of every element).
TEST(Bitwise, ReplicasAfterTwentySteps) {
  auto problem = problem_of(1);
  problem.steps = 20;
  problem.dtype = DType::f32;
  EXPECT_NO_THROW(test::train(problem, with_zero(layout_of({.pp = 2, .replicate = 2, .tp = 2}), 1)));
}

}  // namespace
}  // namespace fivefold
