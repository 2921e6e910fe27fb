// Reads a config.json, family by family. What cannot be represented is refused by name, never dropped.
#include "model/hf_config.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/json.h"
#include "core/nearest.h"

namespace fivefold {
namespace {

[[noreturn]] void refuse(const std::string& key, const Json& value, const std::string& rule) {
  throw UserError(str("config.json: ", key, " = ", value.dump(), " ", rule));
}

// One object of the file. null counts as absent.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) {}

  bool has(const std::string& key) const { return object_.contains(key) && !object_[key].is_null(); }
  const Json& at(const std::string& key) const {
    if (!has(key)) throw UserError(str("config.json lacks ", key));
    return object_[key];
  }
  std::int64_t integer(const std::string& key) const {
    const auto& value = at(key);
    if (!value.is_number_integer()) refuse(key, value, "must be an integer");
    return value.get<std::int64_t>();
  }
  std::int64_t integer(const std::string& key, std::int64_t fallback) const {
    return has(key) ? integer(key) : fallback;
  }
  double number(const std::string& key) const {
    const auto& value = at(key);
    if (!value.is_number()) refuse(key, value, "must be a number");
    return value.get<double>();
  }
  double number(const std::string& key, double fallback) const { return has(key) ? number(key) : fallback; }
  bool boolean(const std::string& key, bool fallback) const {
    if (!has(key)) return fallback;
    if (!at(key).is_boolean()) refuse(key, at(key), "must be true or false");
    return at(key).get<bool>();
  }
  std::string text(const std::string& key, const std::string& fallback) const {
    if (!has(key)) return fallback;
    if (!at(key).is_string()) refuse(key, at(key), "must be a text");
    return at(key).get<std::string>();
  }
  // Refuses any value but those given; absent is fine.
  void only(const std::string& key, const std::vector<Json>& values, const std::string& why) const {
    if (has(key) && std::find(values.begin(), values.end(), at(key)) == values.end())
      refuse(key, at(key), why);
  }

 private:
  const Json& object_;
};

// --- rotary positions ---

double yarn_scale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

// 0 where the usual 0.1 ln(factor) + 1 holds.
double yarn_attention_factor(const Reader& rope, double factor) {
  if (rope.has("attention_factor")) return rope.number("attention_factor");
  const double mscale = rope.number("mscale", 0), all_dim = rope.number("mscale_all_dim", 0);
  return mscale != 0 && all_dim != 0 ? yarn_scale(factor, mscale) / yarn_scale(factor, all_dim) : 0;
}

RopeScaling read_scaling(const Reader& file, const Reader& rope, std::int64_t context) {
  const auto type = rope.text("rope_type", rope.text("type", "default"));
  if (type == "default") return {};
  RopeScaling scaling;
  const auto original = rope.integer("original_max_position_embeddings", context);
  if (type == "linear") {
    scaling = {.type = RopeScalingType::linear, .factor = rope.number("factor")};
  } else if (type == "llama3") {
    scaling = {
        .type = RopeScalingType::llama3, .factor = rope.number("factor"), .original_context = original};
    scaling.low_freq_factor = rope.number("low_freq_factor");
    scaling.high_freq_factor = rope.number("high_freq_factor");
  } else if (type == "yarn") {
    scaling = {.type = RopeScalingType::yarn,
               .original_context = file.integer("original_max_position_embeddings", original)};
    scaling.factor =
        rope.number("factor", static_cast<double>(context) / static_cast<double>(scaling.original_context));
    scaling.beta_fast = rope.number("beta_fast", 32);
    scaling.beta_slow = rope.number("beta_slow", 1);
    scaling.attention_factor = yarn_attention_factor(rope, scaling.factor);
    scaling.truncate = rope.boolean("truncate", true);
  } else {
    refuse("rope_type", type,
           "is a rotary scaling that Fivefold lacks; it has default, linear, llama3 and yarn");
  }
  return scaling;
}

void read_rope(ModelConfig& c, const Reader& file, double default_theta) {
  static const Json none = Json::object();
  const auto* name = file.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const Json& object = file.has(name) ? file.at(name) : none;
  if (!object.is_object()) refuse(name, object, "must be an object");
  for (const auto& [key, value] : object.items())
    if (value.is_object())
      refuse(name, object, "gives each kind of layer its own positions, which Fivefold lacks");
  const Reader rope(object);
  c.rope_theta = rope.number("rope_theta", file.number("rope_theta", default_theta));
  for (const auto& reader : {file, rope})
    reader.only("partial_rotary_factor", {1.0},
                "turns a part of each head, which Fivefold lacks; only 1.0 works");
  c.rope_scaling = read_scaling(file, rope, c.context);
}

// --- sliding windows ---

// Layers of `config` that slide, where the file says which; Fivefold has one window for all layers.
void check_same_layers(const Reader& file, std::int64_t sliding, std::int64_t layers) {
  if (sliding == 0 || sliding == layers) return;
  throw UserError(str("config.json: ", sliding, " of ", layers, " layers have a sliding window of ",
                      file.integer("sliding_window"),
                      "; Fivefold has one window for all layers or for none"));
}

std::int64_t sliding_layers(const Reader& file, std::int64_t layers, std::int64_t first_sliding) {
  if (!file.has("layer_types")) return std::max<std::int64_t>(layers - first_sliding, 0);
  const auto& types = file.at("layer_types");
  if (!types.is_array()) refuse("layer_types", types, "must be a list");
  for (const auto& type : types)
    if (type != "full_attention" && type != "sliding_attention")
      refuse("layer_types", type, "is a kind of layer that Fivefold lacks");
  return std::count(types.begin(), types.end(), Json("sliding_attention"));
}

// Qwen: the window is on only with use_sliding_window, and from layer max_window_layers.
std::int64_t qwen_window(const Reader& file, std::int64_t layers, std::int64_t default_first) {
  if (!file.boolean("use_sliding_window", false) || !file.has("sliding_window")) return 0;
  const auto sliding = sliding_layers(file, layers, file.integer("max_window_layers", default_first));
  check_same_layers(file, sliding, layers);
  return sliding == 0 ? 0 : file.integer("sliding_window");
}

std::int64_t mistral_window(const Reader& file, std::int64_t layers) {
  if (!file.has("sliding_window")) return 0;
  const auto sliding = sliding_layers(file, layers, 0);
  check_same_layers(file, sliding, layers);
  return sliding == 0 ? 0 : file.integer("sliding_window");
}

// --- families ---

void read_shared(ModelConfig& c, const Reader& file, double default_eps, double default_theta) {
  c.layers = file.integer("num_hidden_layers");
  c.hidden = file.integer("hidden_size");
  c.heads = file.integer("num_attention_heads");
  c.kv_heads = file.integer("num_key_value_heads", c.heads);
  c.head_dim = file.integer("head_dim", 0);
  c.ffn = file.integer("intermediate_size");
  c.vocab = file.integer("vocab_size");
  c.context = file.integer("max_position_embeddings");
  c.tie_embeddings = file.boolean("tie_word_embeddings", false);
  c.init_std = file.number("initializer_range", 0.02);
  c.norm_eps = file.number("rms_norm_eps", default_eps);
  file.only("hidden_act", {"silu"}, "is an activation that Fivefold lacks here; it has silu (SwiGLU)");
  read_rope(c, file, default_theta);
}

void read_attention_bias(ModelConfig& c, const Reader& file) {
  c.qkv_bias = c.out_bias = file.boolean("attention_bias", false);
}

void read_experts(ModelConfig& c, const Reader& file, const std::string& width, bool default_normalize,
                  double default_aux) {
  c.experts = file.has("num_local_experts") ? file.integer("num_local_experts") : file.integer("num_experts");
  c.experts_per_token = file.integer("num_experts_per_tok");
  c.expert_ffn = file.integer(width);
  c.normalize_topk = file.boolean("norm_topk_prob", default_normalize);
  // transformers adds the balance loss only where it returns the router's logits.
  c.aux_loss =
      file.boolean("output_router_logits", false) ? file.number("router_aux_loss_coef", default_aux) : 0;
}

void read_llama(ModelConfig& c, const Reader& file) {
  read_shared(c, file, 1e-6, 10000);
  read_attention_bias(c, file);
  c.mlp_bias = file.boolean("mlp_bias", false);
}

void read_mistral(ModelConfig& c, const Reader& file) {
  read_shared(c, file, 1e-6, 10000);
  c.window = mistral_window(file, c.layers);
}

void read_mixtral(ModelConfig& c, const Reader& file) {
  read_shared(c, file, 1e-5, 1e6);
  c.window = mistral_window(file, c.layers);
  read_experts(c, file, "intermediate_size", true, 0.001);
  file.only("router_jitter_noise", {0.0, 0}, "is noise that Fivefold lacks; only 0 works");
}

void read_olmoe(ModelConfig& c, const Reader& file) {
  read_shared(c, file, 1e-5, 10000);
  read_attention_bias(c, file);
  read_experts(c, file, "intermediate_size", false, 0.01);
  c.qk_norm = QkNorm::full;
  file.only("clip_qkv", {}, "clips queries, keys and values, which Fivefold lacks; only null works");
}

void read_qwen2(ModelConfig& c, const Reader& file) {
  read_shared(c, file, 1e-6, 10000);
  c.qkv_bias = true;
  c.window = qwen_window(file, c.layers, 28);
}

void read_qwen3(ModelConfig& c, const Reader& file, std::int64_t default_first_sliding) {
  read_shared(c, file, 1e-6, 10000);
  read_attention_bias(c, file);
  if (!file.has("head_dim")) c.head_dim = 128;
  c.qk_norm = QkNorm::head;
  c.window = qwen_window(file, c.layers, default_first_sliding);
}

void read_qwen3_moe(ModelConfig& c, const Reader& file) {
  read_qwen3(c, file, 0);
  read_experts(c, file, "moe_intermediate_size", false, 0.001);
  c.moe_every = file.integer("decoder_sparse_step", 1);
  if (!file.has("mlp_only_layers")) return;
  const auto& dense = file.at("mlp_only_layers");
  for (std::size_t i = 0; i < dense.size(); ++i)
    if (dense[i] != i) refuse("mlp_only_layers", dense, "must be the first layers, 0, 1, 2 and so on");
  c.first_dense = static_cast<std::int64_t>(dense.size());
}

void read_gpt2(ModelConfig& c, const Reader& file) {
  c.layers = file.integer("n_layer");
  c.hidden = file.integer("n_embd");
  c.heads = file.integer("n_head");
  c.ffn = file.integer("n_inner", 4 * c.hidden);
  c.vocab = file.integer("vocab_size");
  c.context = file.integer("n_positions");
  c.tie_embeddings = file.boolean("tie_word_embeddings", true);
  c.init_std = file.number("initializer_range", 0.02);
  c.norm_eps = file.number("layer_norm_epsilon", 1e-5);
  file.only("activation_function", {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"},
            "is an activation that Fivefold lacks here; it has gelu in its tanh form (gelu_new)");
  for (const auto* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"})
    file.only(key, {false}, "is a feature that Fivefold lacks; only false works");
  file.only("scale_attn_weights", {true}, "is a feature that Fivefold lacks; only true works");
}

void read_family(ModelConfig& c, const Reader& file) {
  if (c.family == "gpt2") return read_gpt2(c, file);
  if (c.family == "llama") return read_llama(c, file);
  if (c.family == "mistral") return read_mistral(c, file);
  if (c.family == "mixtral") return read_mixtral(c, file);
  if (c.family == "olmoe") return read_olmoe(c, file);
  if (c.family == "qwen2") return read_qwen2(c, file);
  if (c.family == "qwen3") return read_qwen3(c, file, 28);
  FF_CHECK_EQ(c.family, "qwen3_moe");
  read_qwen3_moe(c, file);
}

}  // namespace

ModelConfig config_from_hf(const Json& config) {
  if (!config.is_object()) throw UserError("config.json must hold one JSON object");
  const Reader file(config);
  const auto type = file.text("model_type", "");
  const auto& known = family_names();
  if (std::find(known.begin(), known.end(), type) == known.end())
    refuse("model_type", type,
           "is a family that Fivefold lacks; the nearest is '" + nearest_name(type, known) + "'");
  file.only("quantization_config", {}, "describes quantised weights, which Fivefold does not read");
  ModelConfig model = family_defaults(type);
  read_family(model, file);
  return complete(model);
}

}  // namespace fivefold
