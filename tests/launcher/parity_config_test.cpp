// fivefold parity --config: right layouts pass in every precision, a wrong one is named.
#include <gtest/gtest.h>

#include <cmath>

#include "core/transfer.h"
#include "launcher/parity_layout.h"
#include "tests/support/trajectory.h"

namespace fivefold {
namespace {

Config config_of(const ModelConfig& model, const MeshShape& mesh, DType dtype) {
  Config config;
  config.model = model;
  config.data.sequence = 12;
  config.train.global_batch = 6, config.train.micro_batch = 2, config.train.precision = dtype;
  config.optimizer.lr = 1e-2;
  auto& p = config.parallel;
  p.pp = mesh.pp, p.replicate = mesh.replicate, p.shard = mesh.shard, p.cp = mesh.cp, p.tp = mesh.tp;
  return config;
}

LayoutParity parity(const Config& config, int ranks, std::int64_t steps,
                    const std::function<void(Engine&)>& spoil = {}) {
  LayoutParity out;
  run_world({.ranks = ranks}, [&](RankContext& context) {
    auto mine = compare_with_one_rank(config, context, steps, spoil);
    EXPECT_EQ(mine.comparisons.empty(), context.world_rank() != 0);
    if (context.world_rank() == 0) out = std::move(mine);
    return 0;
  });
  return out;
}

TEST(ParityConfig, LayoutsPassInF64) {
  struct Case {
    ModelConfig model;
    MeshShape mesh;
  };
  for (const auto& [model, mesh] :
       {Case{test::small_llama(), {.replicate = 2, .tp = 4}},
        Case{test::small_gpt2(), {.pp = 2, .cp = 2, .tp = 2}},
        Case{test::small_qwen3(), {.shard = 3, .cp = 2}}, Case{test::small_llama(), {}}}) {
    auto config = config_of(model, mesh, DType::f64);
    config.parallel.zero = mesh.shard > 1 ? 3 : 1;
    const auto result = parity(config, mesh.world(), 3);
    EXPECT_TRUE(result.ok()) << to_string(mesh) << '\n' << to_text(result.comparisons);
    EXPECT_TRUE(result.culprits.empty());
    ASSERT_EQ(result.comparisons.size(), 4u);
    for (const auto& c : result.comparisons) EXPECT_EQ(c.tolerance, 1e-10) << c.quantity;
    if (mesh.world() == 1) {
      EXPECT_LT(result.comparisons[2].largest, 1e-12);
    }
  }
}

// f32 within the tolerances of stored trajectories; bf16 within twice its own distance from f32.
TEST(ParityConfig, LayoutsPassInF32AndBf16) {
  for (const auto dtype : {DType::f32, DType::bf16})
    for (const MeshShape& mesh : {MeshShape{.shard = 2, .tp = 2}, MeshShape{.pp = 2, .cp = 2}}) {
      auto config = config_of(test::small_llama(), mesh, dtype);
      config.model.init_std = 0.02;
      const auto result = parity(config, 4, 3);
      EXPECT_TRUE(result.ok()) << to_string(mesh) << '\n' << to_text(result.comparisons);
      EXPECT_GT(result.comparisons[2].largest, 0);
    }
}

// Adds to one element of one rank's piece of a gradient.
std::function<void(Engine&)> spoiled(const std::string& name, int world_rank, double by) {
  return [=](Engine& engine) {
    if (engine.mesh().world().rank() != world_rank) return;
    for (auto* p : engine.params()) {
      if (p->param->name != name) continue;
      auto values = to_host(p->gradient, engine.run().stream);
      values[0] += by;
      write(p->gradient, values, engine.run().stream);
    }
  };
}

// The check can fail, and says where: the first tensor, how it is cut, the rank that is worst.
TEST(ParityConfig, NamesTheFirstTensorThatDiffers) {
  for (const auto dtype : {DType::f64, DType::f32, DType::bf16}) {
    const auto config = config_of(test::small_llama(), {.shard = 2, .tp = 2}, dtype);
    const auto result =
        parity(config, 4, 2, spoiled("blocks.1.attn.k.weight", 3, dtype == DType::f64 ? 1e-6 : 1));
    EXPECT_FALSE(result.ok());
    const auto& gradients = result.comparisons[2];
    EXPECT_GT(gradients.largest, gradients.tolerance);
    EXPECT_EQ(gradients.worst, "blocks.1.attn.k.weight in step 0");
    ASSERT_FALSE(result.culprits.empty());
    for (const auto* words :
         {"every gradient of each step: first blocks.1.attn.k.weight in step 0", "computed cut d0 tp/2(6)",
          "stored cut d0 tp/2(6), shard*cp", "on world rank 3 (pp 0, replicate 0, shard 1, cp 0, tp 1)"})
      EXPECT_NE(result.culprits[0].find(words), std::string::npos) << words << " in: " << result.culprits[0];
  }
}

// NaN is no agreement.
TEST(ParityConfig, NanIsOutOfTolerance) {
  const auto config = config_of(test::small_llama(), {.shard = 2}, DType::f64);
  EXPECT_FALSE(parity(config, 2, 1, spoiled("final_norm.weight", 1, std::nan(""))).ok());
}

TEST(ParityConfig, LargeModelsAreRefusedWithWhatFits) {
  EXPECT_NO_THROW(check_parity_size(model_preset("gpt2-124m")));
  try {
    check_parity_size(model_preset("llama-1b"));
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("500000000 parameters, but this one has 1498482688"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace fivefold
