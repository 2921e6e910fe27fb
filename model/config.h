// The shape of a model: every [model] key of a configuration as a plain value, and what follows from the
// shape alone (parameter counts, FLOPs a token, rules that a shape must obey).
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/enum_names.h"
#include "kernels/ops/attention.h"

namespace fivefold {

enum class Norm : std::uint8_t { rms, layer };
enum class Activation : std::uint8_t { swiglu, gelu };  // gelu in its tanh form
enum class Position : std::uint8_t { rope, learned, none };
enum class QkNorm : std::uint8_t { none, head, full };  // full: over all heads together
enum class Router : std::uint8_t { softmax, sigmoid };
enum class AuxScope : std::uint8_t { sequence, batch };
enum class RopeScalingType : std::uint8_t { none, linear, llama3, yarn };
enum class RecomputePolicy : std::uint8_t { none, selective, full };
enum class LrDecay : std::uint8_t { constant, cosine, linear, wsd };

template <>
inline constexpr auto kEnumNames<Norm> = std::to_array<std::string_view>({"rms", "layer"});
template <>
inline constexpr auto kEnumNames<Activation> = std::to_array<std::string_view>({"swiglu", "gelu"});
template <>
inline constexpr auto kEnumNames<Position> = std::to_array<std::string_view>({"rope", "learned", "none"});
template <>
inline constexpr auto kEnumNames<QkNorm> = std::to_array<std::string_view>({"none", "head", "full"});
template <>
inline constexpr auto kEnumNames<Router> = std::to_array<std::string_view>({"softmax", "sigmoid"});
template <>
inline constexpr auto kEnumNames<AuxScope> = std::to_array<std::string_view>({"sequence", "batch"});
template <>
inline constexpr auto kEnumNames<RopeScalingType> = std::to_array<std::string_view>({"none", "linear",
                                                                                     "llama3", "yarn"});
template <>
inline constexpr auto kEnumNames<RecomputePolicy> = std::to_array<std::string_view>({"none", "selective",
                                                                                     "full"});
template <>
inline constexpr auto kEnumNames<LrDecay> = std::to_array<std::string_view>({"constant", "cosine", "linear",
                                                                             "wsd"});
template <>
inline constexpr auto kEnumNames<RopeStyle> = std::to_array<std::string_view>({"half", "interleaved"});

// How rotary frequencies are stretched beyond the context a model was first trained with. Fields a type does
// not use keep their defaults. Written `llama3,factor=8,original_context=8192` in a configuration.
struct RopeScaling {
  RopeScalingType type = RopeScalingType::none;
  double factor = 1;
  std::int64_t original_context = 0;  // llama3, yarn: tokens
  double low_freq_factor = 1;         // llama3
  double high_freq_factor = 4;        // llama3
  double beta_fast = 32;              // yarn: turns within original_context above which a dim is left alone
  double beta_slow = 1;               // yarn: turns below which a dim is stretched fully
  double attention_factor = 0;        // yarn: scales cos and sin; 0 means 0.1 ln(factor) + 1
  bool truncate = true;               // yarn: round the two borders of the ramp outwards to whole dims
  bool operator==(const RopeScaling&) const = default;
};

struct ModelConfig {
  std::string family = "llama";  // whose file format an export writes: see model/hf_map.h
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // 0: heads
  std::int64_t head_dim = 0;  // 0: hidden / heads
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t context = 0;  // longest sequence, tokens
  bool tie_embeddings = false;
  double init_std = 0.02;
  Norm norm = Norm::rms;
  double norm_eps = 1e-5;
  Activation activation = Activation::swiglu;
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  Position position = Position::rope;
  double rope_theta = 10000;
  RopeStyle rope_style = RopeStyle::half;
  RopeScaling rope_scaling{};
  QkNorm qk_norm = QkNorm::none;
  std::int64_t window = 0;  // keys a query sees, itself included; 0: all before it

  // Latent attention, on when kv_rank > 0.
  std::int64_t q_rank = 0;  // 0: q straight from the hidden state
  std::int64_t kv_rank = 0;
  std::int64_t qk_nope_dim = 0, qk_rope_dim = 0, v_dim = 0;

  // Experts, on when experts > 0: in block n when n >= first_dense and (n + 1) % moe_every == 0.
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t expert_ffn = 0;      // 0: ffn
  std::int64_t shared_experts = 0;  // one dense mlp of shared_experts * expert_ffn beside the routed ones
  bool shared_gate = false;         // the shared mlp is scaled by sigmoid of a learned projection
  std::int64_t first_dense = 0;
  std::int64_t moe_every = 1;
  Router router = Router::softmax;
  bool normalize_topk = true;
  double routed_scale = 1;
  std::int64_t expert_groups = 1, groups_per_token = 1;
  double aux_loss = 0;
  AuxScope aux_scope = AuxScope::sequence;
  double router_z_loss = 0;
  double router_bias_rate = 0;
  double capacity = 0;  // factor; 0: dropless

  bool operator==(const ModelConfig&) const = default;

  std::int64_t q_width() const { return heads * head_dim; }      // rows of attn.q
  std::int64_t kv_width() const { return kv_heads * head_dim; }  // rows of attn.k and attn.v
  bool latent() const { return kv_rank > 0; }
  bool gated() const { return activation == Activation::swiglu; }
  bool moe_block(std::int64_t block) const {
    return experts > 0 && block >= first_dense && (block + 1) % moe_every == 0;
  }
};

// Fills every 0 that stands for a derived value (kv_heads, head_dim, expert_ffn). Idempotent. Call it before
// anything below.
ModelConfig complete(ModelConfig config);

// Throws UserError with the first broken rule, its values and the nearest valid one. Takes a completed
// config.
void check(const ModelConfig& config);

// Elements of all parameters; a tied head counts once.
std::int64_t parameter_count(const ModelConfig& config);
// Elements of the parameters that one token meets (experts_per_token of the experts).
std::int64_t active_parameter_count(const ModelConfig& config);
// Forward and backward FLOPs a token: 6 x (matmul parameters used by the token, head included, embedding
// lookup not) + attention by visible pairs (causal, no window: 6 x layers x heads x head_dim x sequence).
// Recompute never counts.
double model_flops_per_token(const ModelConfig& config, std::int64_t sequence);

// "llama-1b" and so on; throws UserError naming the nearest preset.
ModelConfig model_preset(const std::string& name);
const std::vector<std::string>& preset_names();
// What a family's models have in common (norm, activation, biases, positions), with no sizes. UserError as
// above.
ModelConfig family_defaults(const std::string& family);
const std::vector<std::string>& family_names();

}  // namespace fivefold
