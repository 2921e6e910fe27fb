// config.json in both spellings, family by family, and the refusals that name what Fivefold lacks.
#include "model/hf_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "core/error.h"
#include "core/json.h"

namespace fivefold {
namespace {

Json fixture(const std::string& name) {
  std::ifstream in(std::string(FIVEFOLD_FIXTURES) + "/hf/" + name + "/config.json");
  return Json::parse(in);
}

// A small llama as files of different ages write it.
Json llama() {
  return Json::parse(
      R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 250, "max_position_embeddings": 256, "hidden_act": "silu",
    "rms_norm_eps": 1e-05, "torch_dtype": "bfloat16"})");
}

Json with(Json json, const std::string& changes) {
  json.update(Json::parse(changes));
  return json;
}

std::string refusal(const Json& json) {
  try {
    config_from_hf(json);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const auto& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
}

TEST(HfConfig, LlamaFixture) {
  const auto c = config_from_hf(fixture("llama"));
  EXPECT_EQ(c.family, "llama");
  EXPECT_EQ(c.layers, 4);
  EXPECT_EQ(c.hidden, 64);
  EXPECT_EQ(c.heads, 4);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.ffn, 128);
  EXPECT_EQ(c.vocab, 250);
  EXPECT_EQ(c.context, 256);
  EXPECT_EQ(c.norm_eps, 1e-6);
  EXPECT_EQ(c.rope_theta, 10000);
  EXPECT_EQ(c.rope_scaling.type, RopeScalingType::none);
  EXPECT_FALSE(c.tie_embeddings || c.qkv_bias || c.out_bias || c.mlp_bias);
}

TEST(HfConfig, Gpt2Fixture) {
  const auto c = config_from_hf(fixture("gpt2"));
  EXPECT_EQ(c.norm, Norm::layer);
  EXPECT_EQ(c.activation, Activation::gelu);
  EXPECT_EQ(c.position, Position::learned);
  EXPECT_EQ(c.ffn, 256);  // n_inner is null: four times the width
  EXPECT_EQ(c.context, 64);
  EXPECT_EQ(c.norm_eps, 1e-5);
  EXPECT_TRUE(c.tie_embeddings && c.qkv_bias && c.out_bias && c.mlp_bias);
}

TEST(HfConfig, Qwen3Fixture) {
  const auto c = config_from_hf(fixture("qwen3"));
  EXPECT_EQ(c.qk_norm, QkNorm::head);
  EXPECT_EQ(c.head_dim, 24);
  EXPECT_EQ(c.window, 0);
  EXPECT_FALSE(c.qkv_bias);
}

TEST(HfConfig, Qwen2AndMistralFixtures) {
  const auto qwen = config_from_hf(fixture("qwen2"));
  EXPECT_TRUE(qwen.qkv_bias && qwen.tie_embeddings);
  EXPECT_FALSE(qwen.out_bias);
  EXPECT_EQ(qwen.rope_theta, 1000);
  EXPECT_EQ(config_from_hf(fixture("mistral_window")).window, 8);
}

TEST(HfConfig, ScalingFixtures) {
  const auto linear = config_from_hf(fixture("linear_scaling")).rope_scaling;
  EXPECT_EQ(linear, (RopeScaling{.type = RopeScalingType::linear, .factor = 4}));
  const auto llama3 = config_from_hf(fixture("llama3_scaling")).rope_scaling;
  EXPECT_EQ(llama3, (RopeScaling{.type = RopeScalingType::llama3, .factor = 8, .original_context = 64}));
  const auto yarn = config_from_hf(fixture("yarn_scaling")).rope_scaling;
  EXPECT_EQ(yarn, (RopeScaling{.type = RopeScalingType::yarn, .factor = 4, .original_context = 64}));
}

TEST(HfConfig, OlderSpellings) {
  const auto plain = config_from_hf(with(llama(), R"({"rope_theta": 500000.0, "rope_scaling": null})"));
  EXPECT_EQ(plain.rope_theta, 500000);
  EXPECT_EQ(plain.kv_heads, 4);  // absent: as many as heads
  EXPECT_EQ(config_from_hf(llama()).rope_theta, 10000);
  const auto old = config_from_hf(with(llama(), R"({"rope_scaling": {"type": "linear", "factor": 2.0}})"));
  EXPECT_EQ(old.rope_scaling, (RopeScaling{.type = RopeScalingType::linear, .factor = 2}));
  // Llama 3.1 as it was published.
  const auto llama31 =
      config_from_hf(with(llama(), R"({"rope_theta": 500000.0, "rope_scaling": {"factor": 8.0,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}})"));
  EXPECT_EQ(llama31.rope_scaling,
            (RopeScaling{.type = RopeScalingType::llama3, .factor = 8, .original_context = 8192}));
}

TEST(HfConfig, YarnDefaultsAndScales) {
  const auto yarn = [](const std::string& fields) {
    return config_from_hf(with(llama(), R"({"rope_scaling": {"rope_type": "yarn", )" + fields + "}}"))
        .rope_scaling;
  };
  // Without a factor it is the stretch from the original context; without that, the file's context.
  EXPECT_EQ(yarn(R"("original_max_position_embeddings": 64)").factor, 4);
  EXPECT_EQ(yarn(R"("factor": 4.0)").original_context, 256);
  EXPECT_EQ(yarn(R"("factor": 4.0)").attention_factor, 0);
  EXPECT_EQ(yarn(R"("factor": 4.0, "attention_factor": 1.25)").attention_factor, 1.25);
  EXPECT_EQ(yarn(R"("factor": 4.0, "truncate": false)").truncate, false);
  EXPECT_DOUBLE_EQ(yarn(R"("factor": 40.0, "mscale": 0.707, "mscale_all_dim": 1.0)").attention_factor,
                   (0.0707 * std::log(40.0) + 1) / (0.1 * std::log(40.0) + 1));
}

Json qwen(const std::string& changes) { return with(fixture("qwen2"), changes); }

TEST(HfConfig, QwenWindowNeedsItsSwitch) {
  // As Qwen2.5 was published: a window is named, but off.
  auto published = qwen(R"({"use_sliding_window": false, "sliding_window": 131072, "max_window_layers": 1})");
  published.erase("layer_types");
  EXPECT_EQ(config_from_hf(published).window, 0);
  auto on = qwen(R"({"use_sliding_window": true, "sliding_window": 16, "max_window_layers": 0})");
  on.erase("layer_types");
  EXPECT_EQ(config_from_hf(on).window, 16);
  on["max_window_layers"] = 2;  // from the third of two layers: nowhere
  EXPECT_EQ(config_from_hf(on).window, 0);
  on["max_window_layers"] = 1;
  expect_words(refusal(on), {"1 of 2 layers", "16", "all layers or for none"});
  expect_words(refusal(qwen(R"({"use_sliding_window": true, "sliding_window": 16,
                                "layer_types": ["full_attention", "sliding_attention"]})")),
               {"1 of 2 layers"});
}

TEST(HfConfig, MistralWindowMayBeNull) {
  EXPECT_EQ(config_from_hf(with(fixture("mistral_window"), R"({"sliding_window": null})")).window, 0);
}

TEST(HfConfig, AttentionBiasMeansAllFourInLlama) {
  const auto c = config_from_hf(with(llama(), R"({"attention_bias": true, "mlp_bias": true})"));
  EXPECT_TRUE(c.qkv_bias && c.out_bias && c.mlp_bias);
}

Json qwen3_moe() {
  return with(
      llama(),
      R"({"model_type": "qwen3_moe", "head_dim": 16, "moe_intermediate_size": 48, "num_experts_per_tok": 2,
    "norm_topk_prob": true, "router_aux_loss_coef": 0.01, "output_router_logits": true, "num_local_experts": 8})");
}

TEST(HfConfig, Experts) {
  const auto c = config_from_hf(qwen3_moe());
  EXPECT_EQ(c.experts, 8);
  EXPECT_EQ(c.experts_per_token, 2);
  EXPECT_EQ(c.expert_ffn, 48);
  EXPECT_EQ(c.aux_loss, 0.01);
  EXPECT_TRUE(c.normalize_topk);
  EXPECT_EQ(c.moe_every, 1);
  auto other = qwen3_moe();
  other.erase("num_local_experts");
  EXPECT_EQ(config_from_hf(with(other, R"({"num_experts": 4})")).experts, 4);
  EXPECT_EQ(config_from_hf(with(qwen3_moe(), R"({"output_router_logits": false})")).aux_loss, 0);
  EXPECT_EQ(
      config_from_hf(with(qwen3_moe(), R"({"mlp_only_layers": [0], "decoder_sparse_step": 1})")).first_dense,
      1);
  expect_words(refusal(with(qwen3_moe(), R"({"mlp_only_layers": [1]})")), {"mlp_only_layers", "[1]"});
}

TEST(HfConfig, MixtralAndOlmoe) {
  const auto mixtral = config_from_hf(with(llama(), R"({"model_type": "mixtral", "num_local_experts": 8,
    "num_experts_per_tok": 2, "sliding_window": null, "rope_theta": 1000000.0})"));
  EXPECT_EQ(mixtral.expert_ffn, 128);
  EXPECT_TRUE(mixtral.normalize_topk);
  const auto olmoe =
      config_from_hf(with(llama(), R"({"model_type": "olmoe", "num_experts": 8, "num_experts_per_tok": 2,
    "norm_topk_prob": false, "clip_qkv": null})"));
  EXPECT_EQ(olmoe.qk_norm, QkNorm::full);
  EXPECT_FALSE(olmoe.normalize_topk);
}

TEST(HfConfig, RefusesByName) {
  expect_words(refusal(with(llama(), R"({"model_type": "lama"})")), {"model_type", "\"lama\"", "'llama'"});
  expect_words(refusal(with(llama(), R"({"hidden_act": "relu"})")), {"hidden_act", "relu"});
  expect_words(refusal(with(llama(), R"({"partial_rotary_factor": 0.5})")), {"partial_rotary_factor", "0.5"});
  expect_words(refusal(with(llama(), R"({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}})")),
               {"longrope", "linear, llama3 and yarn"});
  expect_words(refusal(with(llama(), R"({"rope_parameters": {"full_attention": {"rope_theta": 1.0}}})")),
               {"each kind of layer"});
  expect_words(refusal(with(llama(), R"({"quantization_config": {"bits": 4}})")), {"quantization_config"});
  expect_words(refusal(with(fixture("gpt2"), R"({"activation_function": "relu"})")),
               {"activation_function", "gelu_new"});
  expect_words(refusal(with(fixture("gpt2"), R"({"scale_attn_by_inverse_layer_idx": true})")),
               {"scale_attn_by_inverse"});
  auto lacking = llama();
  lacking.erase("hidden_size");
  expect_words(refusal(lacking), {"lacks hidden_size"});
  expect_words(refusal(with(llama(), R"({"hidden_size": "64"})")), {"hidden_size", "\"64\"", "integer"});
  expect_words(refusal(with(llama(), R"({"rms_norm_eps": true})")), {"rms_norm_eps", "number"});
  expect_words(refusal(Json::array()), {"JSON object"});
}

TEST(HfConfig, WhatIsWrittenReadsBack) {
  for (const auto& name : preset_names()) {
    const auto model = model_preset(name);
    EXPECT_EQ(config_from_hf(config_to_hf(model, DType::bf16)), model) << name;
  }
  auto yarn = model_preset("tiny");
  yarn.rope_scaling = {.type = RopeScalingType::yarn,
                       .factor = 4,
                       .original_context = 64,
                       .beta_fast = 16,
                       .attention_factor = 1.5,
                       .truncate = false};
  EXPECT_EQ(config_from_hf(config_to_hf(yarn, DType::f32)), yarn);
}

TEST(HfConfig, WrittenFileHasTheUsualKeys) {
  const auto json = config_to_hf(model_preset("tiny"), DType::bf16);
  EXPECT_EQ(json["architectures"], Json::parse(R"(["LlamaForCausalLM"])"));
  EXPECT_EQ(json["torch_dtype"], "bfloat16");
  EXPECT_TRUE(json["rope_scaling"].is_null());
  EXPECT_EQ(config_to_hf(model_preset("tiny-gpt2"), DType::f32)["architectures"][0], "GPT2LMHeadModel");
}

}  // namespace
}  // namespace fivefold
