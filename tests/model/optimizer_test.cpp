// The step over sharded parameters: one norm for every layout, clipping of huge gradients, steps that are
// refused everywhere, and gradients that are summed in more than they are stored in.
#include "model/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/linear.h"
#include "tests/support/layer_run.h"

namespace fivefold {
namespace {

using test::TestParams;

void fill(const Run& run, const Tensor& t, double value) { run(Fill{.x = t, .value = value}); }

// Moments after one step from zero: m = 0.1 of the clipped gradient.
const AdamWOptions kOptions{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0, .clip = 1};

// B08: 100 elements of 1e20 have the norm 1e21; clipped to 1 each becomes 0.1. Their squares do not fit f32.
TEST(OptimizerStep, HugeGradientsAreClippedRight) {
  for (const int ranks : {1, 3})
    test::on_ranks({.shard = ranks}, DType::f32, [](const auto& run) {
      TestParams params(run);
      params.add("w", {100});
      auto* p = params.sharded().front();
      fill(run, p->gradient, 1e20);
      Optimizer optimizer(run, kOptions, 1);
      optimizer.step(run, params.sharded(), 1e-3);
      const auto report = optimizer.report(run);
      EXPECT_TRUE(report.applied);
      EXPECT_NEAR(report.grad_norm / 1e21, 1, 1e-6);  // 1e20 itself is rounded to f32
      for (const double m : test::numbers(p->m, run)) EXPECT_NEAR(m / 0.1, 0.1, 1e-6);
    });
}

// B08: one element that is not finite, on one rank only: nothing changes anywhere but the count of refused
// steps, and the next step goes on as if it had not been.
TEST(OptimizerStep, NonFiniteStepIsRefusedOnAllRanks) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    test::on_ranks({.shard = 3}, DType::f32, [&](const auto& run) {
      TestParams params(run);
      params.add("w", {7, 2});
      params.add("b", {5}, 1);
      Optimizer optimizer(run, kOptions, 2);
      const auto good_step = [&] {
        for (auto* p : params.sharded()) fill(run, p->gradient, 0.5);
        optimizer.step(run, params.sharded(), 1e-2);
      };
      const auto state = [&] {
        std::vector<std::vector<double>> all;
        for (auto* p : params.sharded())
          for (const auto& t : {p->master, p->m, p->v}) all.push_back(test::numbers(t, run));
        return all;
      };
      good_step();
      const auto before = state();
      if (run.mesh.position() == 1)
        params.sharded()[0]->gradient.template data<float>()[0] = static_cast<float>(bad);
      optimizer.step(run, params.sharded(), 1e-2);
      auto report = optimizer.report(run);
      EXPECT_FALSE(report.applied);
      EXPECT_FALSE(std::isfinite(report.grad_norm));
      EXPECT_EQ(report.steps, 1);
      EXPECT_EQ(report.skipped, 1);
      EXPECT_EQ(state(), before);
      good_step();
      report = optimizer.report(run);
      EXPECT_TRUE(report.applied);
      EXPECT_EQ(report.steps, 2);
      EXPECT_EQ(report.skipped, 1);
      EXPECT_NE(state(), before);
    });
}

// B03, B07: replicated parameters count once, cut ones with all their parts, whatever the degree. Squares: 6
// x 4, 16 x 1.
TEST(OptimizerStep, NormCountsEveryElementOnce) {
  for (const MeshShape& mesh :
       {MeshShape{}, MeshShape{.tp = 8}, MeshShape{.replicate = 2, .shard = 2, .tp = 2},
        MeshShape{.shard = 4, .cp = 2}, MeshShape{.replicate = 8}})
    test::on_ranks(mesh, DType::f64, [&](const auto& run) {
      TestParams params(run);
      params.add("norm", {6});
      params.add(
          {{.name = "sinks", .shape = {16}, .compute = PartitionSpec{}.with(0, {.axes = {Axis::tp}})}});
      const auto all = params.sharded();
      fill(run, all[0]->gradient, 2);
      fill(run, all[1]->gradient, 1);
      Optimizer optimizer(run, kOptions, 2);
      optimizer.step(run, all, 0);
      EXPECT_EQ(optimizer.report(run).grad_norm, std::sqrt(40.0)) << to_string(mesh);
      EXPECT_EQ(test::numbers(optimizer.squares(), run), (std::vector<double>{24, 16}));
    });
}

TEST(OptimizerStep, OnlyMatricesDecay) {
  test::on_one_rank([](const auto& run) {
    TestParams params(run);
    params.add("w", {2, 2}, 1, 0);
    params.add("b", {3}, 1, 0);
    auto options = kOptions;
    options.weight_decay = 0.5;
    Optimizer optimizer(run, options, 2);
    for (auto* p : params.sharded()) fill(run, p->gradient, 0);
    optimizer.step(run, params.sharded(), 0.1);
    for (const double w : test::numbers(params.sharded()[0]->master, run)) EXPECT_DOUBLE_EQ(w, 1 - 0.1 * 0.5);
    for (const double b : test::numbers(params.sharded()[1]->master, run)) EXPECT_EQ(b, 1);
  });
}

TEST(OptimizerStep, CountsGoOnFromACheckpoint) {
  test::on_one_rank([](const auto& run) {
    TestParams params(run);
    params.add("w", {1}, 1, 0);
    auto* p = params.sharded().front();
    fill(run, p->gradient, 0.25);
    Optimizer optimizer(run, kOptions, 1);
    optimizer.set_counts(run, 1000, 3);
    optimizer.step(run, params.sharded(), 1);
    EXPECT_EQ(optimizer.report(run).steps, 1001);
    EXPECT_EQ(optimizer.report(run).skipped, 3);
    // Bias correction of step 1001 is none, of step 1 it would be whole (B64): m = 0.025, v = 0.05 x 0.0625.
    EXPECT_NEAR(test::numbers(p->master, run)[0], 1 - 0.025 / std::sqrt(0.05 * 0.0625), 1e-7);
  });
}

// B52: 512 micro-gradients of 1 are 512, and 4096 + 1 is 4097, in a bf16 model; bf16 itself stops at 256 and
// 4096.
TEST(OptimizerStep, Bf16GradientsAreSummedInF32) {
  test::on_ranks({.shard = 2}, DType::bf16, [](const auto& run) {
    TestParams params(run);
    const ColumnLinear layer(params.add({{"w", {4, 3}}}), params.add({{"b", {4}}}));
    auto x = run.activation({1, 3}), dy = run.activation({1, 4});
    fill(run, x, 1), fill(run, dy, 1);
    const bool first = run.mesh.position() == 0;
    for (int micro_batch = 0; micro_batch < (first ? 4096 : 512); ++micro_batch) {
      ColumnLinear::Saved saved{.x = x, .dy = dy};
      layer.backward_weight(run, saved);
    }
    for (auto& p : params.all())
      for (const double g : test::numbers(p.gradient, run)) EXPECT_EQ(g, first ? 4096 : 512) << p.name;
    if (!first) params.fill_gradients(1);
    params.reduce_gradients();
    for (auto* p : params.sharded())
      for (const double g : test::numbers(p->gradient, run)) EXPECT_EQ(g, 4097) << p->param->name;
  });
}

}  // namespace
}  // namespace fivefold
