// Builds a stage from the parameter table. Running it: run_stage.cpp.
#include "model/stage.h"

#include "core/transfer.h"

namespace fivefold {

namespace {

// Parameters of one class lie adjacent, so that their products are one.
std::string group_key(const ParamInfo& info) {
  const bool qkv = info.kind == ParamKind::q || info.kind == ParamKind::k || info.kind == ParamKind::v;
  const bool gate_up = info.kind == ParamKind::gate || info.kind == ParamKind::up;
  if (!qkv && !gate_up) return info.name;
  return str(qkv ? "qkv" : "gate_up", info.shape.rank());
}

Tensor upload_table(const Run& run, const std::vector<double>& values, std::int64_t columns) {
  const auto rows = static_cast<std::int64_t>(values.size()) / columns;
  return upload(run.memory, values, {rows, columns}, run.accum(), Tag::weights, run.stream);
}

}  // namespace

std::unique_ptr<ParamTable> make_param_table(const ModelConfig& config, const MeshLayout& mesh,
                                             int position) {
  auto table = std::make_unique<ParamTable>();
  table->params = place_parameters(config, mesh, position);
  for (auto& p : table->params) table->by_name[p.name] = &p;
  return table;
}

Param* ParamTable::find(const std::string& name) const {
  const auto it = by_name.find(name);
  return it == by_name.end() ? nullptr : it->second;
}

Stage::Stage(const Run& run, const ModelConfig& config, const StagePlan& plan, const StageOptions& options,
             ParamTable& table, Stage* embedding)
    : config_(config),
      cp_strategy_(options.cp_strategy),
      plan_(plan),
      table_(table),
      embedding_stage_(plan.embeds ? this : embedding) {
  if (plan_.embeds) embedding_.emplace(table_.find("embed.weight"), table_.find("embed.position"));
  make_units(run, options.zero);
  if (config_.position == Position::rope) {
    const auto positions = options.context > 0 ? options.context : config_.context;
    const auto tables =
        options.rope ? options.rope : std::make_shared<const RopeTables>(rope_tables(config_, positions));
    cos_ = upload_table(run, tables->cos, config_.head_dim / 2);
    sin_ = upload_table(run, tables->sin, config_.head_dim / 2);
  }
  for (auto i = plan_.first_block; i < plan_.end_block; ++i)
    blocks_.emplace_back(block(i), options.recompute);
  if (plan_.ends)
    head_.emplace(norm("final_norm"), table_.find(config_.tie_embeddings ? "embed.weight" : "head.weight"),
                  options.loss_rows);
}

NormLayer Stage::norm(const std::string& name) {
  return {table_.find(name + ".weight"), table_.find(name + ".bias"), config_.norm_eps};
}

Block Stage::block(std::int64_t index) {
  const auto at = [&](const char* name) { return table_.find(str("blocks.", index, '.', name)); };
  const auto prefix = str("blocks.", index);
  return {norm(prefix + ".norm1"),
          Attention(config_,
                    {.q = at("attn.q.weight"),
                     .k = at("attn.k.weight"),
                     .v = at("attn.v.weight"),
                     .q_bias = at("attn.q.bias"),
                     .k_bias = at("attn.k.bias"),
                     .v_bias = at("attn.v.bias"),
                     .q_norm = at("attn.q_norm.weight"),
                     .k_norm = at("attn.k_norm.weight"),
                     .out = at("attn.out.weight"),
                     .out_bias = at("attn.out.bias")},
                    cos_, sin_, cp_strategy_),
          norm(prefix + ".norm2"),
          Mlp({.gate = at("mlp.gate.weight"),
               .up = at("mlp.up.weight"),
               .down = at("mlp.down.weight"),
               .gate_bias = at("mlp.gate.bias"),
               .up_bias = at("mlp.up.bias"),
               .down_bias = at("mlp.down.bias")})};
}

// The last stage keeps a copy of the tied table where the embedding is on another rank.
bool Stage::holds_tied_table() const { return config_.tie_embeddings && plan_.ends && !embedding_stage_; }

// Which unit a parameter belongs to is its block; those outside the blocks are told apart by kind.
FsdpUnit Stage::make_unit(const Run& run, const std::string& name, ZeroPolicy policy, std::int64_t block) {
  const bool embedding = name == "embedding";
  FsdpUnit::Groups groups;
  std::map<std::string, std::size_t> index;
  for (const auto& info : parameter_list(config_)) {
    const bool table = info.kind == ParamKind::embedding,
               of_embedding = table || info.kind == ParamKind::position;
    const bool tied_copy = table && !embedding && block < 0 && holds_tied_table();
    if (info.block != block || (block < 0 && of_embedding != embedding && !tied_copy)) continue;
    const auto [it, fresh] = index.try_emplace(group_key(info), groups.size());
    if (fresh) groups.emplace_back();
    auto* param = table_.find(info.name);
    if (param->tied_across)
      policy.reduce_each_micro_batch = false;  // its two stages are at different micro-batches
    groups[it->second].push_back(param);
  }
  return {run, name, groups, policy};
}

void Stage::make_units(const Run& run, const ZeroPolicy& policy) {
  if (plan_.embeds) units_.push_back(make_unit(run, "embedding", policy, -1));
  for (auto i = plan_.first_block; i < plan_.end_block; ++i)
    units_.push_back(make_unit(run, str("blocks.", i), policy, i));
  if (plan_.ends) units_.push_back(make_unit(run, "head", policy, -1));
}

}  // namespace fivefold
