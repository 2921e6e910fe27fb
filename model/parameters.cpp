// The list is built block by block by small functions that each add one layer's parameters.
#include "model/parameters.h"

namespace fivefold {
namespace {

class List {
 public:
  void add(const std::string& name, Shape shape, ParamKind kind) {
    params_.push_back({prefix_ + name, shape, kind, block_});
  }
  // A matrix and, where the model has it, its bias.
  void add_linear(const std::string& name, std::int64_t out, std::int64_t in, bool bias, ParamKind kind) {
    add(name + ".weight", {out, in}, kind);
    if (bias) add(name + ".bias", {out}, kind);
  }
  void add_norm(const std::string& name, std::int64_t width, Norm norm, ParamKind kind = ParamKind::norm) {
    add(name + ".weight", {width}, kind);
    if (norm == Norm::layer) add(name + ".bias", {width}, kind);
  }
  void enter_block(std::int64_t block) {
    block_ = static_cast<int>(block);
    prefix_ = str("blocks.", block, ".");
  }
  void leave_blocks() {
    block_ = -1;
    prefix_.clear();
  }
  std::vector<ParamInfo> take() { return std::move(params_); }

 private:
  std::vector<ParamInfo> params_;
  std::string prefix_;
  int block_ = -1;
};

struct Named {
  std::string name;
  std::int64_t rows;
  ParamKind kind;
};

// Weights, then biases: parameters that share one GEMM lie next to each other.
void add_fused(List& list, const std::vector<Named>& parts, std::int64_t in, bool bias) {
  for (const auto& part : parts) list.add(part.name + ".weight", {part.rows, in}, part.kind);
  if (!bias) return;
  for (const auto& part : parts) list.add(part.name + ".bias", {part.rows}, part.kind);
}

void add_qk_norm(List& list, const ModelConfig& c) {
  if (c.qk_norm == QkNorm::none) return;
  const bool head = c.qk_norm == QkNorm::head;
  list.add("attn.q_norm.weight", {head ? c.head_dim : c.q_width()},
           head ? ParamKind::head_norm : ParamKind::q_norm);
  list.add("attn.k_norm.weight", {head ? c.head_dim : c.kv_width()},
           head ? ParamKind::head_norm : ParamKind::k_norm);
}

void add_attention(List& list, const ModelConfig& c) {
  add_fused(list,
            {{"attn.q", c.q_width(), ParamKind::q},
             {"attn.k", c.kv_width(), ParamKind::k},
             {"attn.v", c.kv_width(), ParamKind::v}},
            c.hidden, c.qkv_bias);
  add_qk_norm(list, c);
  list.add_linear("attn.out", c.hidden, c.q_width(), c.out_bias, ParamKind::attention_out);
}

void add_latent_attention(List& list, const ModelConfig& c) {
  const std::int64_t q_rows = c.heads * (c.qk_nope_dim + c.qk_rope_dim);
  if (c.q_rank > 0) {
    list.add("attn.q_a.weight", {c.q_rank, c.hidden}, ParamKind::latent_a);
    list.add("attn.q_a_norm.weight", {c.q_rank}, ParamKind::latent_norm);
    list.add("attn.q_b.weight", {q_rows, c.q_rank}, ParamKind::latent_b);
  } else {
    list.add("attn.q.weight", {q_rows, c.hidden}, ParamKind::latent_b);
  }
  list.add("attn.kv_a.weight", {c.kv_rank + c.qk_rope_dim, c.hidden}, ParamKind::latent_a);
  list.add("attn.kv_a_norm.weight", {c.kv_rank}, ParamKind::latent_norm);
  list.add("attn.kv_b.weight", {c.heads * (c.qk_nope_dim + c.v_dim), c.kv_rank}, ParamKind::latent_b);
  list.add_linear("attn.out", c.hidden, c.heads * c.v_dim, c.out_bias, ParamKind::attention_out);
}

void add_mlp(List& list, const ModelConfig& c, const std::string& name, std::int64_t width, bool bias) {
  std::vector<Named> inner{{name + ".up", width, ParamKind::up}};
  if (c.gated()) inner.insert(inner.begin(), {name + ".gate", width, ParamKind::gate});
  add_fused(list, inner, c.hidden, bias);
  list.add_linear(name + ".down", c.hidden, width, bias, ParamKind::down);
}

void add_experts(List& list, const ModelConfig& c) {
  list.add("moe.router.weight", {c.experts, c.hidden}, ParamKind::router);
  list.add("moe.experts.gate_up.weight", {c.experts * 2 * c.expert_ffn, c.hidden}, ParamKind::expert_gate_up);
  list.add("moe.experts.down.weight", {c.experts * c.hidden, c.expert_ffn}, ParamKind::expert_down);
  if (c.shared_experts == 0) return;
  add_mlp(list, c, "moe.shared", c.shared_experts * c.expert_ffn, false);
  if (c.shared_gate) list.add("moe.shared_gate.weight", {1, c.hidden}, ParamKind::shared_gate);
}

void add_block(List& list, const ModelConfig& c, std::int64_t block) {
  list.enter_block(block);
  list.add_norm("norm1", c.hidden, c.norm);
  c.latent() ? add_latent_attention(list, c) : add_attention(list, c);
  list.add_norm("norm2", c.hidden, c.norm);
  c.moe_block(block) ? add_experts(list, c) : add_mlp(list, c, "mlp", c.ffn, c.mlp_bias);
  list.leave_blocks();
}

}  // namespace

std::vector<ParamInfo> parameter_list(const ModelConfig& config) {
  FF_CHECK(config.kv_heads > 0 && config.head_dim > 0, "the shape is not completed: call complete() first");
  List list;
  list.add("embed.weight", {config.vocab, config.hidden}, ParamKind::embedding);
  if (config.position == Position::learned)
    list.add("embed.position", {config.context, config.hidden}, ParamKind::position);
  for (std::int64_t block = 0; block < config.layers; ++block) add_block(list, config, block);
  list.add_norm("final_norm", config.hidden, config.norm);
  if (!config.tie_embeddings) list.add("head.weight", {config.vocab, config.hidden}, ParamKind::head);
  return list.take();
}

}  // namespace fivefold
