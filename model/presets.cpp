// Well-known shapes by name, and what the families they belong to have in common.
#include <map>

#include "core/nearest.h"
#include "model/config.h"

namespace fivefold {
namespace {

RopeScaling llama3_scaling(double factor) {
  return {.type = RopeScalingType::llama3, .factor = factor, .original_context = 8192};
}

ModelConfig gpt2_family() {
  return {.family = "gpt2",
          .tie_embeddings = true,
          .norm = Norm::layer,
          .norm_eps = 1e-5,
          .activation = Activation::gelu,
          .qkv_bias = true,
          .out_bias = true,
          .mlp_bias = true,
          .position = Position::learned};
}

ModelConfig qwen2_family() {
  return {.family = "qwen2", .norm_eps = 1e-6, .qkv_bias = true, .rope_theta = 1e6};
}

ModelConfig qwen3_family(const std::string& name = "qwen3") {
  return {.family = name, .norm_eps = 1e-6, .rope_theta = 1e6, .qk_norm = QkNorm::head};
}

ModelConfig olmoe_family() {
  return {.family = "olmoe",
          .norm_eps = 1e-5,
          .qk_norm = QkNorm::full,
          .normalize_topk = false,
          .aux_loss = 0.01};
}

struct Size {
  std::int64_t layers, hidden, heads, kv_heads, ffn, vocab, context;
};

ModelConfig sized(ModelConfig c, const Size& size) {
  c.layers = size.layers;
  c.hidden = size.hidden;
  c.heads = size.heads;
  c.kv_heads = size.kv_heads;
  c.ffn = size.ffn;
  c.vocab = size.vocab;
  c.context = size.context;
  return c;
}

ModelConfig llama(const Size& size, double stretch) {
  auto c = sized({.family = "llama", .rope_theta = 500000}, size);
  c.rope_scaling = llama3_scaling(stretch);
  return c;
}

ModelConfig with_experts(ModelConfig c, std::int64_t experts, std::int64_t per_token,
                         std::int64_t expert_ffn) {
  c.experts = experts;
  c.experts_per_token = per_token;
  c.expert_ffn = expert_ffn;
  return c;
}

ModelConfig tied(ModelConfig c) {
  c.tie_embeddings = true;
  return c;
}

ModelConfig with_head_dim(ModelConfig c, std::int64_t head_dim) {
  c.head_dim = head_dim;
  return c;
}

ModelConfig with_window(ModelConfig c, std::int64_t window) {
  c.window = window;
  return c;
}

const std::map<std::string, ModelConfig>& families() {
  static const std::map<std::string, ModelConfig> table{
      {"gpt2", gpt2_family()},
      {"llama", {.family = "llama"}},
      {"mistral", {.family = "mistral"}},
      {"mixtral", {.family = "mixtral", .rope_theta = 1e6, .aux_loss = 0.02}},
      {"olmoe", olmoe_family()},
      {"qwen2", qwen2_family()},
      {"qwen3", qwen3_family()},
      {"qwen3_moe", qwen3_family("qwen3_moe")},
  };
  return table;
}

// {layers, hidden, heads, kv_heads, ffn, vocab, context}
std::map<std::string, ModelConfig> make_presets() {
  const auto& family = families();
  return {
      {"gpt2-124m", sized(gpt2_family(), {12, 768, 12, 12, 3072, 50257, 1024})},
      {"gpt2-1.5b", sized(gpt2_family(), {48, 1600, 25, 25, 6400, 50257, 1024})},
      {"llama-1b", llama({16, 2048, 32, 8, 8192, 128256, 131072}, 32)},
      {"llama-3b", llama({28, 3072, 24, 8, 8192, 128256, 131072}, 32)},
      {"llama-8b", llama({32, 4096, 32, 8, 14336, 128256, 131072}, 8)},
      {"mistral-7b", with_window(sized(family.at("mistral"), {32, 4096, 32, 8, 14336, 32000, 32768}), 4096)},
      {"mixtral-8x7b",
       with_experts(sized(family.at("mixtral"), {32, 4096, 32, 8, 14336, 32000, 32768}), 8, 2, 14336)},
      {"olmoe-1b-7b",
       with_experts(sized(olmoe_family(), {16, 2048, 16, 16, 1024, 50304, 4096}), 64, 8, 1024)},
      {"qwen2.5-0.5b", tied(sized(qwen2_family(), {24, 896, 14, 2, 4864, 151936, 32768}))},
      {"qwen3-0.6b", tied(with_head_dim(sized(qwen3_family(), {28, 1024, 16, 8, 3072, 151936, 40960}), 128))},
      {"qwen3-30b-a3b",
       with_experts(
           with_head_dim(sized(qwen3_family("qwen3_moe"), {48, 2048, 32, 4, 6144, 151936, 40960}), 128), 128,
           8, 768)},
      {"tiny", sized(family.at("llama"), {2, 64, 4, 2, 128, 320, 128})},
      {"tiny-gpt2", sized(gpt2_family(), {2, 64, 4, 4, 256, 320, 128})},
      {"tiny-moe", with_experts(sized(family.at("qwen3_moe"), {2, 64, 4, 2, 128, 320, 128}), 8, 2, 48)},
  };
}

const std::map<std::string, ModelConfig>& presets() {
  static const std::map<std::string, ModelConfig> table = make_presets();
  return table;
}

std::vector<std::string> keys_of(const std::map<std::string, ModelConfig>& table) {
  std::vector<std::string> names;
  for (const auto& [name, unused] : table) names.push_back(name);
  return names;
}

ModelConfig find(const std::map<std::string, ModelConfig>& table, const char* what, const std::string& name) {
  const auto found = table.find(name);
  if (found != table.end()) return found->second;
  throw UserError(
      str("unknown ", what, " '", name, "'; the nearest is '", nearest_name(name, keys_of(table)), "'"));
}

}  // namespace

ModelConfig model_preset(const std::string& name) { return complete(find(presets(), "model.preset", name)); }

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> names = keys_of(presets());
  return names;
}

ModelConfig family_defaults(const std::string& family) { return find(families(), "model.family", family); }

const std::vector<std::string>& family_names() {
  static const std::vector<std::string> names = keys_of(families());
  return names;
}

}  // namespace fivefold
