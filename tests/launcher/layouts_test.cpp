// Every layout trains the same model: losses, norms, every gradient and every weight against one rank that
// takes a sample at a time, in f64 to 1e-10. A new kind of layout is one more row of the table.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "parallel/comm/launch_order.h"
#include "tests/support/trajectory.h"

namespace fivefold {
namespace {

using test::Layout;
using test::Problem;
using test::Trajectory;

enum class Shape { llama, gpt2, qwen3 };

Problem problem_of(Shape shape, std::int64_t global_batch = 6) {
  Problem p;
  p.model = shape == Shape::llama  ? test::small_llama()
            : shape == Shape::gpt2 ? test::small_gpt2()
                                   : test::small_qwen3();
  p.global_batch = global_batch;
  return p;
}

// One rank, made once.
const Trajectory& alone(Shape shape, std::int64_t global_batch) {
  static std::map<std::pair<Shape, std::int64_t>, Trajectory> made;
  const auto [it, fresh] = made.try_emplace({shape, global_batch});
  if (fresh) it->second = test::train(problem_of(shape, global_batch), {});
  return it->second;
}

void expect_same(const Trajectory& got, Shape shape, std::int64_t global_batch, const Layout& layout) {
  const auto d = test::distance(got, alone(shape, global_batch), problem_of(shape, global_batch));
  EXPECT_LE(d.largest(), 1e-10) << to_string(layout) << ", global batch " << global_batch << ": "
                                << to_string(d);
}

class EveryLayout : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(LlamaGpt2Qwen3, EveryLayout,
                         testing::Values(Shape::llama, Shape::gpt2, Shape::qwen3));

// The reference is no trivial one: every tensor has a gradient, the norm is clipped, weights move.
TEST_P(EveryLayout, ReferenceMoves) {
  const auto& one = alone(GetParam(), 6);
  const auto p = problem_of(GetParam());
  for (std::size_t s = 0; s < one.loss.size(); ++s) {
    EXPECT_GT(one.grad_norm[s], p.optimizer.clip);
    EXPECT_GT(one.valid_tokens[s], 20);
    EXPECT_LT(one.valid_tokens[s], 72);
    EXPECT_TRUE(one.reports[s].applied);
    double squares = 0;
    for (const auto& [name, values] : one.gradients[s]) {
      double largest = 0;
      for (const double g : values) largest = std::max(largest, std::abs(g)), squares += g * g;
      const bool zero_in_truth = name.ends_with("attn.k.bias");
      EXPECT_GT(largest, zero_in_truth ? 0 : 1e-4) << name;
    }
    EXPECT_NEAR(std::sqrt(squares), one.grad_norm[s], 1e-12 * one.grad_norm[s]);
  }
  EXPECT_LT(one.loss.back(), one.loss.front());
}

// B11, B13, B17, B51: any number of ranks, any micro-batch, batches that divide by neither, and ranks with
// unlike numbers of targets; a rank may have no sample at all. B27, B28: no size of these models divides by 3
// or 8.
TEST_P(EveryLayout, DataParallel) {
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const std::int64_t micro_batch : {1, 2, 4})
      for (const std::int64_t global_batch : {5, 6}) {
        const Layout layout{.mesh = {.shard = ranks}, .micro_batch = micro_batch};
        expect_same(test::train(problem_of(GetParam(), global_batch), layout), GetParam(), global_batch,
                    layout);
      }
}

TEST_P(EveryLayout, ShardsAndReplicas) {
  for (const MeshShape& mesh : {MeshShape{.replicate = 2, .shard = 2}, MeshShape{.replicate = 3},
                                MeshShape{.replicate = 2, .shard = 3}}) {
    const Layout layout{.mesh = mesh, .micro_batch = 2};
    expect_same(test::train(problem_of(GetParam()), layout), GetParam(), 6, layout);
  }
}

TEST_P(EveryLayout, TensorParallel) {
  for (const MeshShape& mesh : {MeshShape{.tp = 2}, MeshShape{.tp = 4}, MeshShape{.shard = 2, .tp = 2},
                                MeshShape{.replicate = 2, .tp = 2}, MeshShape{.shard = 3, .tp = 2}}) {
    const Layout layout{.mesh = mesh, .micro_batch = 2};
    expect_same(test::train(problem_of(GetParam()), layout), GetParam(), 6, layout);
  }
}

// B51: the stages of ZeRO are one algorithm: the same bits where gradients are reduced equally often.
TEST_P(EveryLayout, ZeroStagesGiveTheSameBits) {
  for (const bool each : {false, true})
    for (const MeshShape& mesh :
         {MeshShape{.shard = 4}, MeshShape{.replicate = 2, .shard = 2}, MeshShape{.shard = 2, .tp = 2}}) {
      std::set<std::uint64_t> hashes;
      for (const int stage : {1, 2, 3})
        for (const bool reshard : {true, false}) {
          Layout layout{.mesh = mesh};
          layout.stage.zero = {.stage = stage, .reduce_each_micro_batch = each, .reshard_after_use = reshard};
          const auto got = test::train(problem_of(GetParam()), layout);
          expect_same(got, GetParam(), 6, layout);
          hashes.insert(test::hash_of(got));
        }
      EXPECT_EQ(hashes.size(), 1u) << to_string(mesh) << " each " << each;
    }
}

// Recompute changes no bit, on one rank and on several.
TEST_P(EveryLayout, RecomputeGivesTheSameBits) {
  for (const int ranks : {1, 2}) {
    std::set<std::uint64_t> hashes;
    for (const auto policy : {RecomputePolicy::none, RecomputePolicy::selective, RecomputePolicy::full}) {
      Layout layout{.mesh = {.shard = ranks}, .micro_batch = 2};
      layout.stage.recompute = policy;
      hashes.insert(test::hash_of(test::train(problem_of(GetParam()), layout)));
    }
    EXPECT_EQ(hashes.size(), 1u);
  }
}

// B87: the launches of all ranks have one order.
TEST_P(EveryLayout, LaunchesHaveOneOrder) {
  for (const MeshShape& mesh : {MeshShape{.shard = 4}, MeshShape{.replicate = 2, .shard = 2}}) {
    std::vector<std::vector<LedgerRecord>> ledgers;
    test::train(problem_of(GetParam()), {.mesh = mesh}, &ledgers);
    ASSERT_EQ(ledgers.size(), 4u);
    EXPECT_GT(ledgers[0].size(), 50u);
    check_launch_order(ledgers);
    std::swap(ledgers[3][5], ledgers[3][6]);  // the check can fail
    std::swap(ledgers[3][5].launch, ledgers[3][6].launch);
    ledgers[3].pop_back();
    EXPECT_THROW(check_launch_order(ledgers), Error);
  }
}

// Ranks that hold the same box keep the same bits over many steps (train() compares all holders).
TEST(Replicas, StayAlike) {
  auto problem = problem_of(Shape::gpt2);
  problem.steps = 20;
  for (const auto dtype : {DType::f32, DType::bf16}) {
    problem.dtype = dtype;
    EXPECT_NO_THROW(test::train(problem, {.mesh = {.replicate = 2, .shard = 2}, .micro_batch = 2}));
  }
}

// bf16 over ranks is no further from one rank than bf16 itself is from f32, twice (the loss; gradients by
// their norm).
TEST(Precision, Bf16OverRanksIsAsGoodAsOnOne) {
  auto problem = problem_of(Shape::llama);
  problem.dtype = DType::f32;
  const auto exact = test::train(problem, {});
  problem.dtype = DType::bf16;
  const auto one = test::train(problem, {});
  const auto four = test::train(problem, {.mesh = {.shard = 4}});
  for (std::size_t s = 0; s < one.loss.size(); ++s) {
    EXPECT_LE(std::abs(four.loss[s] - one.loss[s]), 2 * std::abs(one.loss[s] - exact.loss[s]) + 1e-6) << s;
    EXPECT_LE(std::abs(four.grad_norm[s] - one.grad_norm[s]),
              2 * std::abs(one.grad_norm[s] - exact.grad_norm[s]) + 1e-6)
        << s;
  }
}

}  // namespace
}  // namespace fivefold
