// Every parameter of a model in the one global order that placement, initial values, the gradient norm, the
// optimizer and checkpoints share: embed, blocks, final_norm, head. Names and shapes are written to disk: do
// not change them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/types.h"
#include "model/config.h"

namespace fivefold {

// What a parameter is to the placement table (model/placement). A bias has the kind of its matrix and rank 1.
enum class ParamKind : std::uint8_t {
  embedding,       // embed.weight [vocab, hidden]
  position,        // embed.position [context, hidden]
  norm,            // norm1, norm2, final_norm [hidden]
  q,               // [heads * head_dim, hidden]
  k,               // [kv_heads * head_dim, hidden]
  v,               // [kv_heads * head_dim, hidden]
  head_norm,       // attn.q_norm, attn.k_norm over one head [head_dim]
  q_norm,          // attn.q_norm over the full width [heads * head_dim]
  k_norm,          // attn.k_norm over the full width [kv_heads * head_dim]
  attention_out,   // [hidden, heads * head_dim]
  gate,            // [ffn, hidden]; shared experts too
  up,              // [ffn, hidden]
  down,            // [hidden, ffn]
  router,          // [experts, hidden]
  shared_gate,     // [1, hidden]
  expert_gate_up,  // [experts * 2 * expert_ffn, hidden]: per expert its gate rows, then its up rows
  expert_down,     // [experts * hidden, expert_ffn]
  latent_a,        // attn.q_a [q_rank, hidden], attn.kv_a [kv_rank + qk_rope_dim, hidden]
  latent_norm,     // attn.q_a_norm [q_rank], attn.kv_a_norm [kv_rank]
  latent_b,        // attn.q_b, attn.kv_b [heads * per-head rows, rank]; attn.q too where q_rank is 0
  head,            // head.weight [vocab, hidden], absent when tied
};

struct ParamInfo {
  std::string name;  // "blocks.3.attn.q.weight"
  Shape shape;       // global, [out, in]
  ParamKind kind;
  int block = -1;  // its block, or -1 outside the blocks
  bool decay() const { return shape.rank() >= 2; }
};

// Takes a completed config (model/config.h).
std::vector<ParamInfo> parameter_list(const ModelConfig& config);

}  // namespace fivefold
