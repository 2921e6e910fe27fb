// Shapes: presets against published sizes, FLOPs against closed forms, and every rule of check() with its
// nearest value.
#include "model/config.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"

namespace fivefold {
namespace {

// Published parameter counts; llama-1b and llama-3b here have a head of their own (vocab x hidden more).
TEST(ModelConfig, PresetsHaveTheirPublishedSizes) {
  const std::vector<std::pair<std::string, std::int64_t>> sizes{
      {"gpt2-124m", 124439808},
      {"gpt2-1.5b", 1557611200},
      {"llama-1b", 1235814400 + 128256LL * 2048},
      {"llama-3b", 3212749824 + 128256LL * 3072},
      {"llama-8b", 8030261248},
      {"mistral-7b", 7241732096},
      {"mixtral-8x7b", 46702792704},
      {"olmoe-1b-7b", 6919161856},
      {"qwen2.5-0.5b", 494032768},
      {"qwen3-0.6b", 596049920},
      {"qwen3-30b-a3b", 30532122624},
  };
  for (const auto& [name, count] : sizes) EXPECT_EQ(parameter_count(model_preset(name)), count) << name;
}

TEST(ModelConfig, EveryPresetPassesItsChecksAndIsComplete) {
  for (const auto& name : preset_names()) {
    const auto config = model_preset(name);
    EXPECT_NO_THROW(check(config)) << name;
    EXPECT_EQ(complete(config), config) << name;
  }
}

TEST(ModelConfig, ActiveParametersOfMixtral) {
  EXPECT_EQ(active_parameter_count(model_preset("mixtral-8x7b")), 12879925248);
  EXPECT_EQ(active_parameter_count(model_preset("tiny")), parameter_count(model_preset("tiny")));
}

TEST(ModelConfig, CompleteFillsWhatFollows) {
  const auto c = complete({.hidden = 64, .heads = 4, .ffn = 100, .experts = 2});
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.expert_ffn, 100);
  EXPECT_EQ(complete({.hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 24}).head_dim, 24);
}

// 6 x matmul parameters + 6 x layers x heads x head_dim x sequence.
TEST(ModelConfig, FlopsOfADenseModel) {
  const auto c = model_preset("llama-8b");
  const double matmul =
      32.0 * (4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096 + 3 * 4096.0 * 14336) + 128256.0 * 4096;
  EXPECT_DOUBLE_EQ(model_flops_per_token(c, 4096), 6 * matmul + 6.0 * 32 * 32 * 128 * 4096);
}

TEST(ModelConfig, FlopsCountATiedHeadAndNoEmbeddingLookup) {
  const auto c = model_preset("gpt2-124m");
  const double matmul = 12.0 * (4 * 768.0 * 768 + 2 * 768.0 * 3072) + 50257.0 * 768;
  EXPECT_DOUBLE_EQ(model_flops_per_token(c, 1024), 6 * matmul + 6.0 * 12 * 768 * 1024);
}

TEST(ModelConfig, FlopsCountVisiblePairsUnderAWindow) {
  auto c = model_preset("tiny");
  const double full = model_flops_per_token(c, 100);
  c.window = 100;
  EXPECT_DOUBLE_EQ(model_flops_per_token(c, 100), full);
  c.window = 20;
  // A query sees 20 keys but for the first ones: 20 - 20^2 / (2 x 100) = 18 on average, against 50.
  EXPECT_DOUBLE_EQ(full - model_flops_per_token(c, 100), 12.0 * 2 * 64 * (50 - 18));
}

TEST(ModelConfig, FlopsCountTheExpertsATokenMeets) {
  const auto c =
      model_preset("tiny-moe");  // 2 layers, 64 wide, 4/2 heads of 16, 8 experts of 48, 2 met, vocab 320
  const double matmul = 2.0 * (64.0 * (64 + 2 * 32) + 64.0 * 64 + 8 * 64 + 2 * 3 * 64.0 * 48) + 320.0 * 64;
  EXPECT_DOUBLE_EQ(model_flops_per_token(c, 10), 6 * matmul + 6.0 * 2 * 64 * 10);
}

// --- rules ---

std::string refusal(const std::function<void(ModelConfig&)>& change, const std::string& preset = "tiny") {
  auto config = model_preset(preset);
  change(config);
  try {
    check(config);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

// The message must name each of the words: the keys, their values, the nearest valid value.
void expect_refusal(const std::string& message, const std::vector<std::string>& words) {
  for (const auto& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
}

TEST(ModelRules, HeadsAreGroups) {
  expect_refusal(refusal([](auto& c) { c.kv_heads = 3; }),
                 {"heads = 4", "kv_heads = 3", "nearest kv_heads is 2"});
  expect_refusal(refusal([](auto& c) { c.kv_heads = 0; }), {"model.kv_heads = 0", "at least 1"});
}

TEST(ModelRules, HiddenIsAMultipleOfHeadsUnlessHeadDimIsGiven) {
  expect_refusal(refusal([](auto& c) {
                   c.head_dim = 0;
                   c.hidden = 66;
                   c = complete(c);
                 }),
                 {"hidden = 66", "heads = 4", "nearest hidden is 64"});
  EXPECT_EQ(refusal([](auto& c) { c.hidden = 66; }), "accepted");
}

TEST(ModelRules, RotaryHeadsAreEven) {
  expect_refusal(refusal([](auto& c) { c.head_dim = 15; }), {"head_dim", "15", "nearest is 14"});
  EXPECT_EQ(refusal([](auto& c) {
              c.head_dim = 15;
              c.position = Position::learned;
            }),
            "accepted");
}

TEST(ModelRules, SizesArePositive) {
  for (auto member : {&ModelConfig::layers, &ModelConfig::hidden, &ModelConfig::heads, &ModelConfig::vocab,
                      &ModelConfig::context, &ModelConfig::ffn})
    expect_refusal(refusal([member](auto& c) { c.*member = 0; }), {"= 0", "at least 1"});
  expect_refusal(refusal([](auto& c) { c.window = -1; }), {"model.window = -1"});
  expect_refusal(refusal([](auto& c) { c.norm_eps = 0; }), {"model.norm_eps = 0"});
}

TEST(ModelRules, AModelOfExpertsAloneNeedsNoFfn) {
  EXPECT_EQ(refusal([](auto& c) { c.ffn = 0; }, "tiny-moe"), "accepted");
  expect_refusal(refusal(
                     [](auto& c) {
                       c.ffn = 0;
                       c.first_dense = 1;
                     },
                     "tiny-moe"),
                 {"model.ffn = 0"});
}

TEST(ModelRules, RopeScaling) {
  using Type = RopeScalingType;
  const auto with = [](RopeScaling scaling) {
    return refusal([scaling](auto& c) { c.rope_scaling = scaling; });
  };
  EXPECT_EQ(with({.type = Type::linear, .factor = 4}), "accepted");
  EXPECT_EQ(with({.type = Type::yarn, .factor = 4, .original_context = 64}), "accepted");
  expect_refusal(with({.type = Type::linear, .factor = 0.5}), {"at least 1", "0.5"});
  expect_refusal(with({.type = Type::llama3, .factor = 8}), {"llama3", "original_context"});
  expect_refusal(with({.type = Type::llama3, .factor = 8, .original_context = 64, .low_freq_factor = 4}),
                 {"low_freq_factor < high_freq_factor", "4 and 4"});
  expect_refusal(with({.type = Type::yarn, .factor = 8, .original_context = 64, .beta_fast = 1}),
                 {"beta_slow < beta_fast"});
  expect_refusal(refusal([](auto& c) {
                   c.rope_scaling = {.type = Type::linear, .factor = 2};
                   c.position = Position::learned;
                 }),
                 {"needs model.position = rope", "learned"});
}

// B49: each refusal gives the numbers.
TEST(ModelRules, Experts) {
  const auto moe = [](const std::function<void(ModelConfig&)>& change) {
    return refusal(change, "tiny-moe");
  };
  expect_refusal(moe([](auto& c) { c.experts_per_token = 9; }), {"9", "experts = 8", "nearest is 8"});
  expect_refusal(moe([](auto& c) { c.experts_per_token = 0; }), {"it is 0", "nearest is 1"});
  expect_refusal(moe([](auto& c) { c.expert_groups = 3; }), {"3 and 8", "nearest expert_groups is 2"});
  expect_refusal(moe([](auto& c) {
                   c.expert_groups = 2;
                   c.groups_per_token = 3;
                 }),
                 {"3", "expert_groups = 2"});
  expect_refusal(moe([](auto& c) { c.expert_groups = 8; }), {"experts_per_token = 2", "= 1"});
  expect_refusal(moe([](auto& c) { c.activation = Activation::gelu; }), {"swiglu", "gelu"});
  expect_refusal(moe([](auto& c) { c.capacity = -1; }), {"model.capacity = -1"});
  expect_refusal(moe([](auto& c) { c.shared_gate = true; }), {"shared_gate", "shared_experts"});
  expect_refusal(refusal([](auto& c) { c.experts_per_token = 2; }), {"experts = 0"});
}

TEST(ModelRules, LatentAttention) {
  expect_refusal(refusal([](auto& c) { c.q_rank = 8; }), {"kv_rank = 0"});
  const auto latent = [](ModelConfig& c) {
    c.kv_rank = 16;
    c.qk_nope_dim = 8;
    c.qk_rope_dim = 8;
    c.v_dim = 8;
  };
  EXPECT_EQ(refusal(latent), "accepted");
  expect_refusal(refusal([&](auto& c) {
                   latent(c);
                   c.qk_rope_dim = 7;
                 }),
                 {"qk_rope_dim", "7", "nearest is 6"});
  expect_refusal(refusal([&](auto& c) {
                   latent(c);
                   c.qkv_bias = true;
                 }),
                 {"latent attention", "qkv_bias"});
}

TEST(ModelRules, UnknownNamesNameTheNearest) {
  try {
    model_preset("llama-8");
    FAIL();
  } catch (const UserError& error) {
    expect_refusal(error.what(), {"'llama-8'", "'llama-8b'"});
  }
  EXPECT_THROW(family_defaults("llamma"), UserError);
}

}  // namespace
}  // namespace fivefold
