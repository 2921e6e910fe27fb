// Names, shapes and order of all parameters. They are written to disk: a change here breaks every checkpoint.
#include "model/parameters.h"

#include <gtest/gtest.h>

#include <set>

namespace fivefold {
namespace {

std::string listing(const ModelConfig& config) {
  std::string text;
  for (const auto& param : parameter_list(config)) text += str(param.name, " ", param.shape, "\n");
  return text;
}

ModelConfig one_block(const std::string& preset) {
  auto config = model_preset(preset);
  config.layers = 1;
  return config;
}

TEST(Parameters, Llama) {
  EXPECT_EQ(listing(one_block("tiny")),
            "embed.weight [320, 64]\n"
            "blocks.0.norm1.weight [64]\n"
            "blocks.0.attn.q.weight [64, 64]\n"
            "blocks.0.attn.k.weight [32, 64]\n"
            "blocks.0.attn.v.weight [32, 64]\n"
            "blocks.0.attn.out.weight [64, 64]\n"
            "blocks.0.norm2.weight [64]\n"
            "blocks.0.mlp.gate.weight [128, 64]\n"
            "blocks.0.mlp.up.weight [128, 64]\n"
            "blocks.0.mlp.down.weight [64, 128]\n"
            "final_norm.weight [64]\n"
            "head.weight [320, 64]\n");
}

TEST(Parameters, Gpt2) {
  EXPECT_EQ(listing(one_block("tiny-gpt2")),
            "embed.weight [320, 64]\n"
            "embed.position [128, 64]\n"
            "blocks.0.norm1.weight [64]\n"
            "blocks.0.norm1.bias [64]\n"
            "blocks.0.attn.q.weight [64, 64]\n"
            "blocks.0.attn.k.weight [64, 64]\n"
            "blocks.0.attn.v.weight [64, 64]\n"
            "blocks.0.attn.q.bias [64]\n"
            "blocks.0.attn.k.bias [64]\n"
            "blocks.0.attn.v.bias [64]\n"
            "blocks.0.attn.out.weight [64, 64]\n"
            "blocks.0.attn.out.bias [64]\n"
            "blocks.0.norm2.weight [64]\n"
            "blocks.0.norm2.bias [64]\n"
            "blocks.0.mlp.up.weight [256, 64]\n"
            "blocks.0.mlp.up.bias [256]\n"
            "blocks.0.mlp.down.weight [64, 256]\n"
            "blocks.0.mlp.down.bias [64]\n"
            "final_norm.weight [64]\n"
            "final_norm.bias [64]\n");
}

TEST(Parameters, Experts) {
  auto config = one_block("tiny-moe");
  config.shared_experts = 2;
  config.shared_gate = true;
  EXPECT_EQ(listing(config),
            "embed.weight [320, 64]\n"
            "blocks.0.norm1.weight [64]\n"
            "blocks.0.attn.q.weight [64, 64]\n"
            "blocks.0.attn.k.weight [32, 64]\n"
            "blocks.0.attn.v.weight [32, 64]\n"
            "blocks.0.attn.q_norm.weight [16]\n"
            "blocks.0.attn.k_norm.weight [16]\n"
            "blocks.0.attn.out.weight [64, 64]\n"
            "blocks.0.norm2.weight [64]\n"
            "blocks.0.moe.router.weight [8, 64]\n"
            "blocks.0.moe.experts.gate_up.weight [768, 64]\n"
            "blocks.0.moe.experts.down.weight [512, 48]\n"
            "blocks.0.moe.shared.gate.weight [96, 64]\n"
            "blocks.0.moe.shared.up.weight [96, 64]\n"
            "blocks.0.moe.shared.down.weight [64, 96]\n"
            "blocks.0.moe.shared_gate.weight [1, 64]\n"
            "final_norm.weight [64]\n"
            "head.weight [320, 64]\n");
}

TEST(Parameters, LatentAttention) {
  auto config = one_block("tiny");
  config.q_rank = 24;
  config.kv_rank = 16;
  config.qk_nope_dim = 8;
  config.qk_rope_dim = 4;
  config.v_dim = 10;
  const auto text = listing(config);
  EXPECT_NE(text.find("blocks.0.attn.q_a.weight [24, 64]\n"
                      "blocks.0.attn.q_a_norm.weight [24]\n"
                      "blocks.0.attn.q_b.weight [48, 24]\n"
                      "blocks.0.attn.kv_a.weight [20, 64]\n"
                      "blocks.0.attn.kv_a_norm.weight [16]\n"
                      "blocks.0.attn.kv_b.weight [72, 16]\n"
                      "blocks.0.attn.out.weight [64, 40]\n"),
            std::string::npos)
      << text;
  config.q_rank = 0;
  EXPECT_NE(listing(config).find("blocks.0.attn.q.weight [48, 64]\n"), std::string::npos);
}

TEST(Parameters, FullWidthQkNorm) {
  auto config = one_block("tiny");
  config.qk_norm = QkNorm::full;
  const auto text = listing(config);
  EXPECT_NE(text.find("attn.q_norm.weight [64]\n"), std::string::npos);
  EXPECT_NE(text.find("attn.k_norm.weight [32]\n"), std::string::npos);
}

// B36: each block once, under its own number, whatever mixes of dense and expert blocks there are.
TEST(Parameters, BlocksAreNumberedOnceAndMixAsAsked) {
  auto config = model_preset("tiny-moe");
  config.layers = 6;
  config.first_dense = 1;
  config.moe_every = 2;
  std::set<std::string> names;
  std::vector<bool> has_experts(6, false), has_mlp(6, false);
  for (const auto& param : parameter_list(config)) {
    EXPECT_TRUE(names.insert(param.name).second) << param.name;
    const auto prefix = str("blocks.", param.block, ".");
    EXPECT_EQ(param.name.starts_with("blocks."), param.block >= 0) << param.name;
    if (param.block < 0) continue;
    EXPECT_TRUE(param.name.starts_with(prefix)) << param.name;
    if (param.kind == ParamKind::expert_down) has_experts[static_cast<std::size_t>(param.block)] = true;
    if (param.kind == ParamKind::down) has_mlp[static_cast<std::size_t>(param.block)] = true;
  }
  EXPECT_EQ(has_experts, (std::vector<bool>{false, true, false, true, false, true}));
  EXPECT_EQ(has_mlp, (std::vector<bool>{true, false, true, false, true, false}));
}

TEST(Parameters, OnlyMatricesDecay) {
  for (const auto& param : parameter_list(model_preset("tiny-gpt2")))
    EXPECT_EQ(param.decay(), !param.name.ends_with(".bias") && param.name.find("norm") == std::string::npos)
        << param.name;
}

TEST(Parameters, NeedACompletedShape) {
  EXPECT_THROW(parameter_list({.layers = 1, .hidden = 64, .heads = 4}), Error);
}

}  // namespace
}  // namespace fivefold
