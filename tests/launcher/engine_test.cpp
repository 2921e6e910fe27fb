// One step of the engine: what each token weighs, steps without targets, starts that are alike in every
// layout, evaluation that leaves no trace.
#include "launcher/engine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/split_f32.h"
#include "core/transfer.h"
#include "parallel/comm/thread_world.h"
#include "tests/support/trajectory.h"

namespace fivefold {
namespace {

using test::Problem;
using test::Tensors;

Problem llama() {
  Problem p;
  p.model = test::small_llama();
  p.documents = false;
  return p;
}

// Runs `body` with an initialised engine on each rank of `mesh`.
void with_engine(const Problem& p, const MeshShape& mesh,
                 const std::function<void(Engine&, const BatchPlan&)>& body, std::int64_t micro_batch = 1) {
  std::vector<HostSlot> slots;
  for (int r = 0; r < mesh.world(); ++r) slots.push_back({"host", r});
  run_ranks(mesh.world(), [&](Transport& transport) {
    Engine engine({.model = p.model,
                   .mesh = mesh,
                   .dtype = p.dtype,
                   .stage = {.loss_rows = 7},
                   .optimizer = p.optimizer,
                   .memory = {.poison = true}},
                  transport, slots);
    engine.initialize(p.init);
    body(engine, plan_batches(engine.mesh(), p.global_batch, micro_batch, p.model.window, CpStrategy::ring));
  });
}

struct Step {
  StepLoss loss;
  Tensors gradients;
};

// Loss and gradients of the first step; samples in which `trained` allows no position weigh nothing.
Step first_step(const Problem& p, const MeshShape& mesh, std::int64_t micro_batch = 1) {
  Step out;
  with_engine(
      p, mesh,
      [&](Engine& engine, const BatchPlan& plan) {
        const auto batches = test::problem_batches(p, plan, 0);
        const auto loss = engine.accumulate(batches, engine.agree(valid_targets(batches), false).sum);
        auto gradients = test::gather(engine, &ShardedParam::gradient);
        if (engine.mesh().world().rank() == 0) out = {loss, std::move(gradients)};
      },
      micro_batch);
  return out;
}

void expect_close(const Tensors& got, const Tensors& wanted, double tolerance) {
  for (const auto& [name, values] : wanted) {
    double largest = 1e-6;
    for (const double v : values) largest = std::max(largest, std::abs(v));
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(got.at(name)[i], values[i], tolerance * largest) << name << ' ' << i;
  }
}

// The step of two samples with `counts` targets is the mean over all targets, however the samples are spread.
void expect_every_target_weighs_the_same(Problem p, std::int64_t first_count, std::int64_t second_count) {
  p.global_batch = 2;
  const auto counts = [=](std::int64_t sample) { return sample == 0 ? first_count : second_count; };
  const auto only = [&](std::int64_t wanted) {
    auto one = p;
    one.trained = [=](std::int64_t sample, std::int64_t j) { return sample == wanted && j < counts(sample); };
    return first_step(one, {});
  };
  const auto first = only(0), second = only(1);
  ASSERT_EQ(first.loss.valid_tokens, first_count);
  ASSERT_EQ(second.loss.valid_tokens, second_count);
  const auto n = static_cast<double>(first_count), m = static_cast<double>(second_count);
  Tensors wanted = first.gradients;
  for (auto& [name, values] : wanted)
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = (n * values[i] + m * second.gradients.at(name)[i]) / (n + m);
  p.trained = [=](std::int64_t sample, std::int64_t j) { return j < counts(sample); };
  for (const auto& [mesh, micro_batch] : std::vector<std::pair<MeshShape, std::int64_t>>{
           {{}, 1}, {{}, 2}, {{.shard = 2}, 1}, {{.replicate = 2}, 2}}) {
    const auto both = first_step(p, mesh, micro_batch);
    EXPECT_EQ(both.loss.valid_tokens, first_count + second_count);
    EXPECT_NEAR(both.loss.mean(), (first.loss.sum() + second.loss.sum()) / (n + m), 1e-12);
    expect_close(both.gradients, wanted, 1e-12);
  }
}

// B11: 10 and 100 trained tokens in two micro-batches; each token weighs 1/110.
TEST(StepWeights, MicroBatchesOfUnlikeLengths) {
  auto p = llama();
  p.sequence = 101;
  p.model.context = 101;
  expect_every_target_weighs_the_same(p, 10, 100);
}

// B13: one rank has 5 targets, the other 1; each weighs 1/6.
TEST(StepWeights, RanksWithUnlikeNumbersOfTargets) { expect_every_target_weighs_the_same(llama(), 5, 1); }

// B16: masks of all kinds, among them ranks without any target.
TEST(StepWeights, MasksGiveWhatOneRankGives) {
  auto p = llama();
  p.global_batch = 4;
  using Mask = std::function<bool(std::int64_t, std::int64_t)>;
  const std::vector<Mask> masks{
      [](auto, auto) { return true; },
      [](auto, auto) { return false; },
      [](auto sample, auto j) { return sample == 3 && j == 10; },  // the last target of all
      [](auto sample, auto) { return sample < 2; },                // the first half of the ranks
      [](auto sample, auto) { return sample >= 2; },
      [](auto sample, auto j) { return (sample + j) % 2 == 0; },
      [](auto, auto j) { return j == 0; },
  };
  for (std::size_t i = 0; i < masks.size(); ++i) {
    SCOPED_TRACE(str("mask ", i));
    p.trained = masks[i];
    const auto one = first_step(p, {});
    EXPECT_TRUE(std::isfinite(one.loss.mean()));
    for (const int ranks : {2, 4}) {
      const auto got = first_step(p, {.shard = ranks}, 2);
      EXPECT_EQ(got.loss.valid_tokens, one.loss.valid_tokens);
      EXPECT_NEAR(got.loss.mean(), one.loss.mean(), 1e-12);
      expect_close(got.gradients, one.gradients, 1e-11);
    }
  }
  p.trained = masks[1];
  const auto none = first_step(p, {.shard = 2});
  EXPECT_EQ(none.loss.mean(), 0);
  for (const auto& [name, values] : none.gradients)
    for (const double g : values) ASSERT_EQ(g, 0) << name;
}

// The gradient is that of the mean over the step's targets: against differences of what evaluation says.
TEST(StepWeights, GradientIsThatOfTheMeanLoss) {
  auto p = llama();
  p.documents = true;
  with_engine(
      p, {},
      [&](Engine& engine, const BatchPlan& plan) {
        const auto batches = test::problem_batches(p, plan, 0);
        const auto valid = valid_targets(batches);
        engine.accumulate(batches, valid);
        for (const auto* s : engine.params()) {
          double& weight = s->shard.data<double>()[0];
          const double before = weight, gradient = s->gradient.data<double>()[0];
          const auto loss_at = [&](double value) {
            weight = value;
            engine.shards_changed();
            return engine.evaluate(batches, valid).mean();
          };
          const double found = (loss_at(before + 1e-5) - loss_at(before - 1e-5)) / 2e-5;
          loss_at(before);
          EXPECT_NEAR(gradient, found, 1e-6 * std::max(std::abs(gradient), 1e-3)) << s->param->name;
        }
      },
      2);
}

// B17: a step without targets updates nothing and counts as skipped; the next one is an ordinary step.
TEST(EmptyStep, IsCountedAndUpdatesNothing) {
  auto p = llama();
  p.trained = [](std::int64_t sample, std::int64_t) {
    return sample < 6 || sample >= 12;
  };  // none in the second step
  const auto t = test::train(p, {.mesh = {.shard = 2}});
  EXPECT_FALSE(t.reports[1].applied);
  EXPECT_EQ(t.reports[1].steps, 1);
  EXPECT_EQ(t.reports[1].skipped, 1);
  EXPECT_EQ(t.loss[1], 0);
  EXPECT_EQ(t.valid_tokens[1], 0);
  EXPECT_TRUE(t.reports[2].applied);
  EXPECT_EQ(t.reports[2].steps, 2);
  EXPECT_EQ(t.reports[2].skipped, 1);
  for (const auto& [name, values] : t.weights)
    for (const double w : values) ASSERT_TRUE(std::isfinite(w)) << name;
}

TEST(EmptyStep, LeavesTheNextStepAsItWas) {
  auto p = llama();
  std::vector<Tensors> weights;
  for (const bool empty_between : {false, true})
    with_engine(p, {.shard = 2}, [&](Engine& engine, const BatchPlan& plan) {
      const auto step = [&](std::int64_t i, bool masked) {
        auto q = p;
        if (masked) q.trained = [](auto, auto) { return false; };
        const auto batches = test::problem_batches(q, plan, i);
        engine.update(engine.accumulate(batches, engine.agree(valid_targets(batches), false).sum), p.lr);
      };
      step(0, false);
      if (empty_between) step(1, true);
      step(2, false);
      auto w = test::gather(engine, &ShardedParam::master);
      if (engine.mesh().world().rank() == 0) weights.push_back(std::move(w));
    });
  EXPECT_EQ(weights.at(0), weights.at(1));
}

// B08: one element that is not finite, on one rank only; the next step is what it would have been.
TEST(NonFiniteStep, IsRefusedEverywhereAndForgotten) {
  auto p = llama();
  std::vector<Tensors> weights;
  for (const bool bad_between : {false, true})
    with_engine(p, {.shard = 3}, [&](Engine& engine, const BatchPlan& plan) {
      const auto step = [&](std::int64_t i, bool bad) {
        const auto batches = test::problem_batches(p, plan, i);
        const auto loss = engine.accumulate(batches, engine.agree(valid_targets(batches), false).sum);
        if (bad && engine.mesh().world().rank() == 1)
          engine.params()[2]->gradient.data<double>()[0] = INFINITY;
        const auto report = engine.update(loss, p.lr);
        EXPECT_EQ(report.applied, !bad);
      };
      step(0, false);
      if (bad_between) step(1, true);
      step(2, false);
      auto w = test::gather(engine, &ShardedParam::master);
      if (engine.mesh().world().rank() == 0) weights.push_back(std::move(w));
    });
  EXPECT_EQ(weights.at(0), weights.at(1));
}

// B32: the same bits at the start, whatever the layout.
TEST(Start, IsAlikeInEveryLayout) {
  for (auto model : {test::small_llama(), test::small_gpt2()}) {
    auto p = llama();
    p.model = model;
    p.steps = 0;
    const auto one = test::train(p, {}).weights;
    for (const MeshShape& mesh : {MeshShape{.shard = 3}, MeshShape{.replicate = 2},
                                  MeshShape{.replicate = 2, .shard = 4}, MeshShape{.tp = 2}})
      EXPECT_EQ(test::train(p, {.mesh = mesh}).weights, one) << to_string(mesh);
  }
}

// Evaluation gives the loss of training and touches nothing.
TEST(Evaluation, LeavesNoTrace) {
  auto p = llama();
  std::vector<Tensors> weights;
  for (const bool evaluates : {false, true})
    with_engine(p, {.shard = 2}, [&](Engine& engine, const BatchPlan& plan) {
      for (std::int64_t i = 0; i < 2; ++i) {
        const auto batches = test::problem_batches(p, plan, i);
        const auto valid = engine.agree(valid_targets(batches), false).sum;
        const double before = evaluates ? engine.evaluate(batches, valid).mean() : 0;
        const auto loss = engine.accumulate(batches, valid);
        if (evaluates) {
          EXPECT_EQ(before, loss.mean());
          engine.evaluate(test::problem_batches(p, plan, 7), valid);
        }
        engine.update(loss, p.lr);
      }
      auto w = test::gather(engine, &ShardedParam::master);
      if (engine.mesh().world().rank() == 0) weights.push_back(std::move(w));
    });
  EXPECT_EQ(weights.at(0), weights.at(1));
}

// B90: one rank's wish to stop is everyone's.
TEST(Agreement, SumsOverDataRanksAndTakesAnyFlag) {
  with_engine(llama(), {.shard = 2, .tp = 2}, [](Engine& engine, const BatchPlan&) {
    const auto rank = engine.mesh().world().rank();
    const auto all = engine.agree(10 + engine.mesh().coordinate(Axis::shard), rank == 3);
    EXPECT_EQ(all.sum, 21);
    EXPECT_TRUE(all.flag);
    EXPECT_FALSE(engine.agree(1, false).flag);
  });
}

// In bf16 the model computes with the rounded masters.
TEST(Bf16, ComputeCopyIsTheRoundedMaster) {
  auto p = llama();
  p.dtype = DType::bf16;
  with_engine(p, {.shard = 3}, [&](Engine& engine, const BatchPlan& plan) {
    const auto batches = test::problem_batches(p, plan, 0);
    engine.update(engine.accumulate(batches, engine.agree(valid_targets(batches), false).sum), p.lr);
    for (const auto* s : engine.params()) {
      const auto master = to_host(s->master, engine.run().stream),
                 copy = to_host(s->shard, engine.run().stream);
      for (std::size_t i = 0; i < master.size(); ++i)
        ASSERT_EQ(copy[i], static_cast<double>(split(static_cast<float>(master[i])).upper)) << s->param->name;
    }
  });
}

}  // namespace
}  // namespace fivefold
