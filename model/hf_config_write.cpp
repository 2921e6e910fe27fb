// Writes a config.json. Rotary positions take the older form, which every version of transformers reads.
#include "core/error.h"
#include "core/json.h"
#include "model/hf_config.h"

namespace fivefold {
namespace {

std::string torch_name(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "float64";
    case DType::f32:
      return "float32";
    case DType::bf16:
      return "bfloat16";
    default:
      fail(__FILE__, __LINE__, "weights are floating", std::string(name_of(dtype)));
  }
}

std::string architecture(const std::string& family) {
  if (family == "gpt2") return "GPT2LMHeadModel";
  if (family == "qwen3_moe") return "Qwen3MoeForCausalLM";
  std::string name = family;
  name.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(name.front())));
  return name + "ForCausalLM";
}

Json scaling_of(const RopeScaling& s) {
  if (s.type == RopeScalingType::none) return nullptr;
  Json json{{"rope_type", name_of(s.type)}, {"factor", s.factor}};
  if (s.type == RopeScalingType::linear) return json;
  json["original_max_position_embeddings"] = s.original_context;
  if (s.type == RopeScalingType::llama3) {
    json["low_freq_factor"] = s.low_freq_factor;
    json["high_freq_factor"] = s.high_freq_factor;
    return json;
  }
  json["beta_fast"] = s.beta_fast;
  json["beta_slow"] = s.beta_slow;
  json["truncate"] = s.truncate;
  if (s.attention_factor != 0) json["attention_factor"] = s.attention_factor;
  return json;
}

void write_gpt2(Json& json, const ModelConfig& c) {
  json["n_layer"] = c.layers;
  json["n_embd"] = c.hidden;
  json["n_head"] = c.heads;
  json["n_inner"] = c.ffn;
  json["n_positions"] = c.context;
  json["layer_norm_epsilon"] = c.norm_eps;
  json["activation_function"] = "gelu_new";
  for (const auto* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) json[key] = 0.0;
}

void write_shared(Json& json, const ModelConfig& c) {
  json["num_hidden_layers"] = c.layers;
  json["hidden_size"] = c.hidden;
  json["num_attention_heads"] = c.heads;
  json["num_key_value_heads"] = c.kv_heads;
  json["head_dim"] = c.head_dim;
  json["intermediate_size"] = c.ffn;
  json["max_position_embeddings"] = c.context;
  json["rms_norm_eps"] = c.norm_eps;
  json["hidden_act"] = "silu";
  json["attention_dropout"] = 0.0;
  json["rope_theta"] = c.rope_theta;
  json["rope_scaling"] = scaling_of(c.rope_scaling);
}

void write_experts(Json& json, const ModelConfig& c) {
  json[c.family == "mixtral" ? "num_local_experts" : "num_experts"] = c.experts;
  json["num_experts_per_tok"] = c.experts_per_token;
  json[c.family == "qwen3_moe" ? "moe_intermediate_size" : "intermediate_size"] = c.expert_ffn;
  json["output_router_logits"] = c.aux_loss > 0;
  json["router_aux_loss_coef"] = c.aux_loss;
  if (c.family != "mixtral") json["norm_topk_prob"] = c.normalize_topk;
  if (c.family != "qwen3_moe") return;
  json["decoder_sparse_step"] = c.moe_every;
  json["mlp_only_layers"] = Json::array();
  for (std::int64_t block = 0; block < c.first_dense; ++block) json["mlp_only_layers"].push_back(block);
}

void write_family(Json& json, const ModelConfig& c) {
  if (c.family == "gpt2") return write_gpt2(json, c);
  write_shared(json, c);
  if (c.family == "llama") json["mlp_bias"] = c.mlp_bias;
  if (c.family == "llama" || c.family == "qwen3" || c.family == "qwen3_moe" || c.family == "olmoe")
    json["attention_bias"] = c.qkv_bias;
  if (c.family == "mistral" || c.family == "mixtral")
    json["sliding_window"] = c.window > 0 ? Json(c.window) : Json(nullptr);
  if (c.family.starts_with("qwen")) {
    json["use_sliding_window"] = c.window > 0;
    json["sliding_window"] = c.window > 0 ? Json(c.window) : Json(nullptr);
    json["max_window_layers"] = c.window > 0 ? 0 : c.layers;
  }
  if (c.experts > 0) write_experts(json, c);
}

}  // namespace

Json config_to_hf(const ModelConfig& config, DType dtype) {
  Json json{{"architectures", {architecture(config.family)}}, {"model_type", config.family}};
  json["torch_dtype"] = torch_name(dtype);
  json["vocab_size"] = config.vocab;
  json["tie_word_embeddings"] = config.tie_embeddings;
  json["initializer_range"] = config.init_std;
  for (const auto* key : {"bos_token_id", "eos_token_id"})
    json[key] = nullptr;  // else transformers assumes a family's usual ones
  write_family(json, config);
  return json;
}

}  // namespace fivefold
