// Training with sequences dealt to context ranks against one rank: losses, norms, every gradient and every
// weight, in f64 to 1e-10, for every strategy; above all the masks and lengths that leave some ranks with
// little or nothing.
#include <gtest/gtest.h>

#include <set>

#include "parallel/comm/launch_order.h"
#include "tests/support/trajectory.h"

namespace fivefold {
namespace {

using test::Layout;
using test::Problem;
using test::Trajectory;

constexpr CpStrategy kStrategies[] = {CpStrategy::ring, CpStrategy::gather, CpStrategy::ulysses};

Layout layout_of(const MeshShape& mesh, CpStrategy strategy, std::int64_t micro_batch = 2) {
  Layout layout{.mesh = mesh, .micro_batch = micro_batch, .strategy = strategy};
  layout.stage.cp_strategy = strategy;
  return layout;
}

Problem problem_of(const ModelConfig& model, std::int64_t sequence = 12) {
  Problem p;
  p.model = model;
  p.sequence = sequence;
  p.global_batch = 4;
  p.steps = 2;
  return p;
}

// Every mesh with every strategy gives what one rank gives.
void check(const Problem& problem, const std::vector<MeshShape>& meshes) {
  const auto alone = test::train(problem, {});
  for (const auto& mesh : meshes)
    for (const auto strategy : kStrategies) {
      if (problem.model.heads / mesh.tp % mesh.cp != 0 && strategy == CpStrategy::ulysses) continue;
      const auto d = test::distance(test::train(problem, layout_of(mesh, strategy)), alone, problem);
      EXPECT_LE(d.largest(), 1e-10) << to_string(mesh) << ", " << strategy << ": " << to_string(d);
    }
}

const std::vector<MeshShape> kMeshes{
    {.cp = 2}, {.cp = 4}, {.shard = 2, .cp = 2}, {.cp = 2, .tp = 2}, {.replicate = 2, .cp = 4}};

// Grouped heads and packed documents; learned positions; one kv head, a window and norms of heads. B39:
// positions are those of the uncut sequence and restart with its documents.
TEST(ContextParallel, TrainsEveryModel) {
  for (const auto& model : {test::small_llama(), test::small_gpt2(), test::small_qwen3()})
    check(problem_of(model), kMeshes);
}

// B44: 7 rows on 2 ranks, fewer rows than 2 cp, 10 rows with tp 2 and cp 2, one row.
TEST(ContextParallel, LengthsThatNeedPadding) {
  for (const std::int64_t sequence : {7, 3, 10})
    check(problem_of(test::small_llama(), sequence), {{.cp = 2}, {.cp = 4}, {.cp = 2, .tp = 2}});
}

using Trained = std::function<bool(std::int64_t sample, std::int64_t position)>;

// B12: one target in the whole step. B13, B16: targets on few ranks or few positions only.
TEST(ContextParallel, TargetsOnFewRows) {
  const std::vector<std::pair<const char*, Trained>> masks{
      {"one token", [](auto sample, auto j) { return sample % 4 == 1 && j == 4; }},
      {"the last target", [](auto, auto j) { return j == 10; }},
      {"the first target", [](auto, auto j) { return j == 0; }},
      {"the first half", [](auto, auto j) { return j < 6; }},
      {"rank 0 of a zigzag", [](auto, auto j) { return j < 3 || j >= 9; }},
      {"rank 1 of a zigzag", [](auto, auto j) { return j >= 3 && j < 9; }},
      {"every third", [](auto sample, auto j) { return (sample + j) % 3 == 0; }}};
  for (const auto& [name, trained] : masks) {
    SCOPED_TRACE(name);
    auto problem = problem_of(test::small_llama());
    problem.documents = false;
    problem.trained = trained;
    check(problem, {{.cp = 2}, {.cp = 4}});
  }
}

// B16: without any target gradients are exactly zero, the loss is 0 and the step is skipped.
TEST(ContextParallel, NoTargetsAtAll) {
  auto problem = problem_of(test::small_llama());
  problem.trained = [](auto, auto) { return false; };
  for (const auto strategy : kStrategies) {
    const auto got = test::train(problem, layout_of({.cp = 4}, strategy));
    EXPECT_EQ(got.loss, (std::vector<double>{0, 0}));
    for (const auto& report : got.reports) EXPECT_FALSE(report.applied);
    for (const auto& [name, values] : got.gradients[0])
      for (const double g : values) ASSERT_EQ(g, 0) << name;
  }
}

// B14: neither loss nor gradients are scaled by how many ranks share a sequence.
TEST(ContextParallel, TwoDataRanksOfFourEqualEightOfOne) {
  auto problem = problem_of(test::small_llama());
  problem.global_batch = 8;
  const auto eight = test::train(problem, layout_of({.shard = 8}, CpStrategy::ring, 1));
  for (const auto strategy : kStrategies) {
    const auto two = test::train(problem, layout_of({.shard = 2, .cp = 4}, strategy));
    const auto d = test::distance(two, eight, problem);
    EXPECT_LE(d.largest(), 1e-10) << strategy << ": " << to_string(d);
  }
}

// B87: one order of launches, with the transfers of context, tensor and data ranks together.
TEST(ContextParallel, LaunchesHaveOneOrder) {
  for (const auto strategy : kStrategies) {
    std::vector<std::vector<LedgerRecord>> ledgers;
    auto layout = layout_of({.shard = 2, .cp = 2, .tp = 2}, strategy);
    layout.stage.zero.stage = 3;
    test::train(problem_of(test::small_llama()), layout, &ledgers);
    std::int64_t of_context = 0;
    for (const auto& record : ledgers[0]) of_context += record.group == "cp/activations";
    EXPECT_GT(of_context, 10) << strategy;
    EXPECT_NO_THROW(check_launch_order(ledgers)) << strategy;
  }
}

// Recompute runs the transfers of the forward again, and changes no bit.
TEST(ContextParallel, RecomputeGivesTheSameBits) {
  for (const auto strategy : kStrategies) {
    std::set<std::uint64_t> hashes;
    for (const auto policy : {RecomputePolicy::none, RecomputePolicy::selective, RecomputePolicy::full}) {
      auto layout = layout_of({.cp = 2}, strategy);
      layout.stage.recompute = policy;
      hashes.insert(test::hash_of(test::train(problem_of(test::small_llama()), layout)));
    }
    EXPECT_EQ(hashes.size(), 1u) << strategy;
  }
}

}  // namespace
}  // namespace fivefold
