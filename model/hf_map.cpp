// One table of names a family; experts and GPT-2's fused, turned matrices are the special cases.
#include "model/hf_map.h"

#include <map>

#include "core/error.h"
#include "model/parameters.h"

namespace fivefold {
namespace {

struct Names {
  std::map<std::string, std::string> outside;  // our full name -> theirs
  std::string blocks;                          // prefix of a block's tensors, before its number
  std::map<std::string, std::string> inside;   // our name in a block, without .weight -> theirs
  std::string expert_gate, expert_up, expert_down;
  std::string experts_apart, experts_together;  // prefixes in a block
};

Names llama_names() {
  return {.outside = {{"embed", "model.embed_tokens"}, {"final_norm", "model.norm"}, {"head", "lm_head"}},
          .blocks = "model.layers.",
          .inside = {{"norm1", "input_layernorm"},
                     {"norm2", "post_attention_layernorm"},
                     {"attn.q", "self_attn.q_proj"},
                     {"attn.k", "self_attn.k_proj"},
                     {"attn.v", "self_attn.v_proj"},
                     {"attn.out", "self_attn.o_proj"},
                     {"mlp.gate", "mlp.gate_proj"},
                     {"mlp.up", "mlp.up_proj"},
                     {"mlp.down", "mlp.down_proj"}},
          .expert_gate = "gate_proj",
          .expert_up = "up_proj",
          .expert_down = "down_proj",
          .experts_apart = "mlp.experts.",
          .experts_together = "mlp.experts."};
}

Names with_qk_norm(Names names) {
  names.inside["attn.q_norm"] = "self_attn.q_norm";
  names.inside["attn.k_norm"] = "self_attn.k_norm";
  return names;
}

Names with_router(Names names) {
  names.inside["moe.router"] = "mlp.gate";
  return names;
}

Names mixtral_names(HfExperts experts) {
  auto names = with_router(llama_names());
  if (experts == HfExperts::apart) names.inside["moe.router"] = "block_sparse_moe.gate";
  names.expert_gate = "w1";
  names.expert_up = "w3";
  names.expert_down = "w2";
  names.experts_apart = "block_sparse_moe.experts.";
  return names;
}

Names gpt2_names() {
  return {.outside = {{"embed", "transformer.wte"}, {"final_norm", "transformer.ln_f"}, {"head", "lm_head"}},
          .blocks = "transformer.h.",
          .inside = {{"norm1", "ln_1"},
                     {"norm2", "ln_2"},
                     {"attn.q", "attn.c_attn"},
                     {"attn.k", "attn.c_attn"},
                     {"attn.v", "attn.c_attn"},
                     {"attn.out", "attn.c_proj"},
                     {"mlp.up", "mlp.c_fc"},
                     {"mlp.down", "mlp.c_proj"}},
          .expert_gate = {},
          .expert_up = {},
          .expert_down = {},
          .experts_apart = {},
          .experts_together = {}};
}

Names names_of(const std::string& family, HfExperts experts) {
  if (family == "gpt2") return gpt2_names();
  if (family == "mixtral") return mixtral_names(experts);
  if (family == "qwen3") return with_qk_norm(llama_names());
  if (family == "qwen3_moe" || family == "olmoe") return with_router(with_qk_norm(llama_names()));
  return llama_names();
}

class Mapper {
 public:
  Mapper(const ModelConfig& config, HfExperts experts)
      : config_(config), experts_(experts), names_(names_of(config.family, experts)) {}

  void add(const ParamInfo& param) {
    if (param.kind == ParamKind::expert_gate_up) return add_gate_up(param);
    if (param.kind == ParamKind::expert_down) return add_down(param);
    if (param.name == "embed.position") return add_position(param);
    if (config_.family == "gpt2" && param.block >= 0) return add_gpt2(param);
    pieces_.push_back({their_name(param), param.shape, param.name, 0, 0, param.shape[0], false});
  }
  std::vector<HfPiece> take() { return std::move(pieces_); }

 private:
  std::string block_prefix(const ParamInfo& param) const { return str(names_.blocks, param.block, "."); }

  std::string their_name(const ParamInfo& param) const {
    const auto dot = param.name.rfind('.');
    const auto prefix = param.block < 0 ? std::string() : str("blocks.", param.block, ".");
    const auto stem = param.name.substr(prefix.size(), dot - prefix.size());
    const auto& table = param.block < 0 ? names_.outside : names_.inside;
    const auto found = table.find(stem);
    if (found == table.end())
      throw UserError(str("files of family ", config_.family, " have no name for ", param.name,
                          "; choose the model.family that has this feature"));
    return (param.block < 0 ? "" : block_prefix(param)) + found->second + param.name.substr(dot);
  }

  void add_position(const ParamInfo& param) {
    if (config_.family != "gpt2")
      throw UserError(
          str("files of family ", config_.family, " have no learned positions; those of gpt2 have"));
    pieces_.push_back({"transformer.wpe.weight", param.shape, param.name, 0, 0, param.shape[0], false});
  }

  // GPT-2 stores matrices [in, out], and q, k, v side by side as one.
  void add_gpt2(const ParamInfo& param) {
    const bool matrix = param.shape.rank() == 2;
    HfPiece piece{their_name(param), param.shape, param.name, 0, 0, param.shape[0], matrix};
    std::int64_t out = param.shape[0];
    if (param.kind == ParamKind::q || param.kind == ParamKind::k || param.kind == ParamKind::v) {
      out = config_.q_width() + 2 * config_.kv_width();
      if (param.kind != ParamKind::q) piece.their_row = config_.q_width();
      if (param.kind == ParamKind::v) piece.their_row += config_.kv_width();
    }
    piece.their_shape = matrix ? Shape{param.shape[1], out} : Shape{out};
    pieces_.push_back(piece);
  }

  void add_together(const ParamInfo& param, const std::string& name) {
    const auto rows = param.shape[0] / config_.experts;
    pieces_.push_back({block_prefix(param) + names_.experts_together + name,
                       {config_.experts, rows, param.shape[1]},
                       param.name,
                       0,
                       0,
                       param.shape[0],
                       false});
  }

  // One expert's matrix, `row` rows into our tensor.
  void add_apart(const ParamInfo& param, std::int64_t expert, const std::string& name, std::int64_t row,
                 std::int64_t rows) {
    pieces_.push_back({str(block_prefix(param), names_.experts_apart, expert, ".", name, ".weight"),
                       {rows, param.shape[1]},
                       param.name,
                       0,
                       row,
                       rows,
                       false});
  }

  void add_gate_up(const ParamInfo& param) {
    if (experts_ == HfExperts::together) return add_together(param, "gate_up_proj");
    const auto width = config_.expert_ffn;
    for (std::int64_t e = 0; e < config_.experts; ++e) {
      add_apart(param, e, names_.expert_gate, 2 * e * width, width);
      add_apart(param, e, names_.expert_up, (2 * e + 1) * width, width);
    }
  }

  void add_down(const ParamInfo& param) {
    if (experts_ == HfExperts::together) return add_together(param, "down_proj");
    for (std::int64_t e = 0; e < config_.experts; ++e)
      add_apart(param, e, names_.expert_down, e * config_.hidden, config_.hidden);
  }

  const ModelConfig& config_;
  HfExperts experts_;
  Names names_;
  std::vector<HfPiece> pieces_;
};

bool names_experts(const ModelConfig& config) {
  return config.family == "mixtral" || config.family == "olmoe" || config.family == "qwen3_moe";
}

}  // namespace

std::vector<HfPiece> hf_map(const ModelConfig& config, HfExperts experts) {
  if (config.experts > 0 && !names_experts(config))
    throw UserError(str("files of family ", config.family,
                        " have no experts; those of mixtral, olmoe and qwen3_moe have"));
  Mapper mapper(config, experts);
  for (const auto& param : parameter_list(config)) mapper.add(param);
  return mapper.take();
}

std::string hf_canonical_name(const ModelConfig& config, const std::string& name) {
  const bool bare =
      config.family == "gpt2" && !name.starts_with("transformer.") && !name.starts_with("lm_head.");
  return bare ? "transformer." + name : name;
}

bool hf_is_redundant(const ModelConfig& config, const std::string& name) {
  if (config.tie_embeddings && name == "lm_head.weight") return true;
  if (config.family == "gpt2") return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
  return name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace fivefold
