// Rules and closed forms of a model's shape.
#include "model/config.h"

#include "core/divisors.h"
#include "core/error.h"
#include "model/parameters.h"

namespace fivefold {
namespace {

template <class... Parts>
void require(bool holds, const Parts&... parts) {
  if (!holds) throw UserError(str(parts...));
}

void require_at_least(const char* key, std::int64_t value, std::int64_t least) {
  require(value >= least, "model.", key, " = ", value, " must be at least ", least);
}

void require_positive(const char* key, double value) {
  require(value > 0, "model.", key, " = ", value, " must be greater than 0");
}

void require_not_negative(const char* key, double value) {
  require(value >= 0, "model.", key, " = ", value, " must not be negative; 0 turns it off");
}

void check_sizes(const ModelConfig& c) {
  require_at_least("layers", c.layers, 1);
  require_at_least("hidden", c.hidden, 1);
  require_at_least("heads", c.heads, 1);
  require_at_least("kv_heads", c.kv_heads, 1);
  require_at_least("vocab", c.vocab, 1);
  require_at_least("context", c.context, 1);
  require_at_least("window", c.window, 0);
  require_positive("norm_eps", c.norm_eps);
  require_not_negative("init_std", c.init_std);
  bool dense = c.shared_experts == 0 && c.experts == 0;
  for (std::int64_t block = 0; block < c.layers; ++block) dense = dense || !c.moe_block(block);
  if (dense) require_at_least("ffn", c.ffn, 1);
}

void check_attention(const ModelConfig& c) {
  require(c.heads % c.kv_heads == 0,
          "model.heads must be a multiple of model.kv_heads, but heads = ", c.heads,
          " and kv_heads = ", c.kv_heads, "; the nearest kv_heads is ", nearest_divisor(c.heads, c.kv_heads));
  require(c.head_dim > 0,
          "without model.head_dim, model.hidden must be a multiple of model.heads, but hidden = ", c.hidden,
          " and heads = ", c.heads, "; the nearest hidden is ", nearest_multiple(c.heads, c.hidden));
  require(c.position != Position::rope || c.head_dim % 2 == 0,
          "rotary positions turn pairs of dims, so model.head_dim must be even, but it is ", c.head_dim,
          "; the nearest is ", nearest_multiple(2, c.head_dim));
}

void check_latent(const ModelConfig& c) {
  require_at_least("q_rank", c.q_rank, 0);
  require_at_least("kv_rank", c.kv_rank, 0);
  if (!c.latent()) {
    require(c.q_rank == 0 && c.qk_nope_dim == 0 && c.qk_rope_dim == 0 && c.v_dim == 0,
            "model.q_rank, qk_nope_dim, qk_rope_dim and v_dim belong to latent attention, which needs "
            "model.kv_rank "
            "greater than 0, but kv_rank = 0");
    return;
  }
  require_at_least("qk_nope_dim", c.qk_nope_dim, 1);
  require_at_least("qk_rope_dim", c.qk_rope_dim, 2);
  require_at_least("v_dim", c.v_dim, 1);
  require(c.qk_rope_dim % 2 == 0, "model.qk_rope_dim must be even, but it is ", c.qk_rope_dim,
          "; the nearest is ", nearest_multiple(2, c.qk_rope_dim));
  require(c.qk_norm == QkNorm::none && !c.qkv_bias,
          "latent attention (model.kv_rank > 0) has neither model.qk_norm nor model.qkv_bias; set none and "
          "false");
}

void check_rope(const ModelConfig& c) {
  require_positive("rope_theta", c.rope_theta);
  const auto& s = c.rope_scaling;
  if (s.type == RopeScalingType::none) return;
  require(c.position == Position::rope, "model.rope_scaling = ", s.type,
          " needs model.position = rope, but it is ", c.position);
  require(s.factor >= 1, "the factor of model.rope_scaling stretches, so it must be at least 1, but it is ",
          s.factor);
  if (s.type == RopeScalingType::linear) return;
  require(s.original_context >= 1, "model.rope_scaling = ", s.type,
          " needs original_context, the tokens the model was first trained with, but it is ",
          s.original_context);
  if (s.type == RopeScalingType::llama3)
    require(s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor,
            "model.rope_scaling = llama3 needs 0 < low_freq_factor < high_freq_factor, but they are ",
            s.low_freq_factor, " and ", s.high_freq_factor);
  else
    require(s.beta_slow > 0 && s.beta_fast > s.beta_slow,
            "model.rope_scaling = yarn needs 0 < beta_slow < beta_fast, but they are ", s.beta_slow, " and ",
            s.beta_fast);
}

void check_expert_counts(const ModelConfig& c) {
  require(c.experts_per_token >= 1 && c.experts_per_token <= c.experts,
          "model.experts_per_token must lie in 1..model.experts, but it is ", c.experts_per_token,
          " with experts = ", c.experts, "; the nearest is ",
          std::clamp<std::int64_t>(c.experts_per_token, 1, c.experts));
  require(c.expert_groups >= 1 && c.experts % c.expert_groups == 0,
          "model.expert_groups must divide model.experts, but they are ", c.expert_groups, " and ", c.experts,
          "; the nearest expert_groups is ", nearest_divisor(c.experts, c.expert_groups));
  require(c.groups_per_token >= 1 && c.groups_per_token <= c.expert_groups,
          "model.groups_per_token must lie in 1..model.expert_groups, but it is ", c.groups_per_token,
          " with expert_groups = ", c.expert_groups);
  const auto reachable = c.groups_per_token * (c.experts / c.expert_groups);
  require(c.experts_per_token <= reachable, "model.experts_per_token = ", c.experts_per_token,
          " experts cannot come from groups_per_token x experts / expert_groups = ", reachable);
}

void check_experts(const ModelConfig& c) {
  require_at_least("experts", c.experts, 0);
  require_at_least("first_dense", c.first_dense, 0);
  require_at_least("moe_every", c.moe_every, 1);
  require_at_least("shared_experts", c.shared_experts, 0);
  require_not_negative("capacity", c.capacity);
  require_not_negative("aux_loss", c.aux_loss);
  require_not_negative("router_z_loss", c.router_z_loss);
  require_not_negative("router_bias_rate", c.router_bias_rate);
  if (c.experts == 0) {
    require(c.experts_per_token == 0 && c.shared_experts == 0,
            "model.experts_per_token and shared_experts need model.experts greater than 0, but experts = 0");
    return;
  }
  check_expert_counts(c);
  require_at_least("expert_ffn", c.expert_ffn, 1);
  require(c.activation == Activation::swiglu, "experts are gated: model.experts = ", c.experts,
          " needs model.activation = swiglu, but it is ", c.activation);
  require(!c.shared_gate || c.shared_experts > 0,
          "model.shared_gate needs model.shared_experts greater than 0");
}

// Elements used as matrices by one token: everything of two dims but embeddings, experts by the share a token
// meets.
double matmul_elements(const ModelConfig& config) {
  double total = config.tie_embeddings ? static_cast<double>(config.vocab * config.hidden) : 0.0;
  for (const auto& param : parameter_list(config)) {
    if (param.shape.rank() < 2 || param.kind == ParamKind::embedding || param.kind == ParamKind::position)
      continue;
    const bool routed = param.kind == ParamKind::expert_gate_up || param.kind == ParamKind::expert_down;
    const double share =
        routed ? static_cast<double>(config.experts_per_token) / static_cast<double>(config.experts) : 1;
    total += share * static_cast<double>(param.shape.count());
  }
  return total;
}

// Keys that a query sees on average.
double visible_keys(std::int64_t sequence, std::int64_t window) {
  const auto s = static_cast<double>(sequence), w = static_cast<double>(window);
  return window == 0 || window >= sequence ? s / 2 : w - w * w / (2 * s);
}

}  // namespace

ModelConfig complete(ModelConfig c) {
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  if (c.latent() && c.head_dim == 0) c.head_dim = c.qk_nope_dim + c.qk_rope_dim;
  if (c.head_dim == 0 && c.heads > 0 && c.hidden % c.heads == 0) c.head_dim = c.hidden / c.heads;
  if (c.experts > 0 && c.expert_ffn == 0) c.expert_ffn = c.ffn;
  return c;
}

void check(const ModelConfig& config) {
  check_experts(config);
  check_sizes(config);
  check_attention(config);
  check_latent(config);
  check_rope(config);
}

std::int64_t parameter_count(const ModelConfig& config) {
  std::int64_t total = 0;
  for (const auto& param : parameter_list(config)) total += param.shape.count();
  return total;
}

std::int64_t active_parameter_count(const ModelConfig& config) {
  std::int64_t total = 0;
  for (const auto& param : parameter_list(config)) {
    const bool routed = param.kind == ParamKind::expert_gate_up || param.kind == ParamKind::expert_down;
    total += routed ? param.shape.count() / config.experts * config.experts_per_token : param.shape.count();
  }
  return total;
}

double model_flops_per_token(const ModelConfig& config, std::int64_t sequence) {
  const auto heads = static_cast<double>(config.heads);
  const auto score_dims =
      static_cast<double>(config.latent() ? config.qk_nope_dim + config.qk_rope_dim : config.head_dim);
  const auto value_dims = static_cast<double>(config.latent() ? config.v_dim : config.head_dim);
  const double attention = 6 * static_cast<double>(config.layers) * heads * (score_dims + value_dims) *
                           visible_keys(sequence, config.window);
  return 6 * matmul_elements(config) + attention;
}

}  // namespace fivefold
