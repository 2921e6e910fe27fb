// Builds a stage from the parameter table and runs micro-batches through it.
#include "model/stage.h"

#include "core/transfer.h"
#include "model/rope.h"

namespace fivefold {

namespace {

// Parameters of one class lie adjacent, so that their products are one.
std::string group_key(const ParamInfo& info) {
  const bool qkv = info.kind == ParamKind::q || info.kind == ParamKind::k || info.kind == ParamKind::v;
  const bool gate_up = info.kind == ParamKind::gate || info.kind == ParamKind::up;
  if (!qkv && !gate_up) return info.name;
  return str(qkv ? "qkv" : "gate_up", info.shape.rank());
}

Tensor table(const Run& run, const std::vector<double>& values, std::int64_t columns) {
  const auto rows = static_cast<std::int64_t>(values.size()) / columns;
  return upload(run.memory, values, {rows, columns}, run.accum(), Tag::weights, run.stream);
}

}  // namespace

Stage::Stage(const Run& run, const ModelConfig& config, const StagePlan& plan, const StageOptions& options)
    : config_(config), plan_(plan), params_(place_parameters(config, run.mesh.layout(), run.mesh.position())) {
  for (auto& p : params_) by_name_[p.name] = &p;
  make_units(run, options.zero);
  if (config_.position == Position::rope) {
    const auto tables = rope_tables(config_, config_.context);
    cos_ = table(run, tables.cos, config_.head_dim / 2);
    sin_ = table(run, tables.sin, config_.head_dim / 2);
  }
  if (plan_.embeds) embedding_.emplace(find("embed.weight"), find("embed.position"));
  for (auto i = plan_.first_block; i < plan_.end_block; ++i) blocks_.emplace_back(block(i), options.recompute);
  if (plan_.ends)
    head_.emplace(norm("final_norm"), find(config_.tie_embeddings ? "embed.weight" : "head.weight"), options.loss_rows);
}

Param* Stage::find(const std::string& name) {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

NormLayer Stage::norm(const std::string& name) {
  return {find(name + ".weight"), find(name + ".bias"), config_.norm_eps};
}

Block Stage::block(std::int64_t index) {
  const auto at = [&](const char* name) { return find(str("blocks.", index, '.', name)); };
  const auto prefix = str("blocks.", index);
  return {norm(prefix + ".norm1"),
          Attention(config_,
                    {.q = at("attn.q.weight"), .k = at("attn.k.weight"), .v = at("attn.v.weight"),
                     .q_bias = at("attn.q.bias"), .k_bias = at("attn.k.bias"), .v_bias = at("attn.v.bias"),
                     .q_norm = at("attn.q_norm.weight"), .k_norm = at("attn.k_norm.weight"),
                     .out = at("attn.out.weight"), .out_bias = at("attn.out.bias")},
                    cos_, sin_),
          norm(prefix + ".norm2"),
          Mlp({.gate = at("mlp.gate.weight"), .up = at("mlp.up.weight"), .down = at("mlp.down.weight"),
               .gate_bias = at("mlp.gate.bias"), .up_bias = at("mlp.up.bias"), .down_bias = at("mlp.down.bias")})};
}

// Which unit a parameter belongs to is its block; -1 is split into the embedding's and the head's by name.
FsdpUnit Stage::make_unit(const Run& run, const std::string& name, const ZeroPolicy& policy, std::int64_t block) {
  const bool embedding = name == "embedding";
  FsdpUnit::Groups groups;
  std::map<std::string, std::size_t> index;
  for (const auto& info : parameter_list(config_)) {
    const bool of_embedding = info.kind == ParamKind::embedding || info.kind == ParamKind::position;
    if (info.block != block || (block < 0 && of_embedding != embedding)) continue;
    const auto [it, fresh] = index.try_emplace(group_key(info), groups.size());
    if (fresh) groups.emplace_back();
    groups[it->second].push_back(find(info.name));
  }
  return {run, name, groups, policy};
}

void Stage::make_units(const Run& run, const ZeroPolicy& policy) {
  if (plan_.embeds) units_.push_back(make_unit(run, "embedding", policy, -1));
  for (auto i = plan_.first_block; i < plan_.end_block; ++i) units_.push_back(make_unit(run, str("blocks.", i), policy, i));
  if (plan_.ends) units_.push_back(make_unit(run, "head", policy, -1));
  if (auto* table = find("embed.weight"); config_.tie_embeddings && plan_.ends && plan_.embeds)
    table->tied_gradient = run.zeros(table->compute_box.shape(), run.accum(), Tag::gradients);
}

std::vector<ShardedParam*> Stage::sharded() {
  std::vector<ShardedParam*> out;
  for (auto& unit : units_)
    for (auto& p : unit.params()) out.push_back(&p);
  std::sort(out.begin(), out.end(), [](auto* a, auto* b) { return a->param->index < b->param->index; });
  return out;
}

// Weights of unit `index` are there; those of the next are on their way.
void Stage::use(const Run& run, std::size_t index) {
  units_[index].unshard(run);
  if (index + 1 < units_.size()) units_[index + 1].unshard(run);
  units_[index].ready(run);
}

Residual Stage::enter(const Run& run, const TokenRows& rows, const Tensor& input) {
  if (!embedding_) return {input, {}};
  use(run, 0);
  return {embedding_->forward(run, rows), {}};
}

Residual Stage::run_blocks(const Run& run, Residual stream, const TokenRows& rows, Saved& saved) {
  saved.blocks.resize(blocks_.size());
  const std::size_t first = embedding_ ? 1 : 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    use(run, first + i);
    stream = blocks_[i].forward(run, std::move(stream), rows, saved.blocks[i]);
  }
  if (head_) use(run, units_.size() - 1);
  return stream;
}

Tensor Stage::forward(const Run& run, int micro_batch, const TokenRows& rows, const Tensor& input,
                      const LossRequest& request) {
  Saved saved{.rows = rows};
  auto stream = run_blocks(run, enter(run, rows, input), rows, saved);
  if (head_) head_->forward(run, std::exchange(stream, {}), rows, request, saved.head);
  const auto out = head_ ? Tensor{} : summed(run, stream);
  if (request.gradient) in_flight_[micro_batch] = std::move(saved);
  return out;
}

Tensor Stage::backward_input(const Run& run, int micro_batch, const Tensor& d_output) {
  auto& saved = in_flight_.at(micro_batch);
  auto d = head_ ? head_->backward_input(run, saved.head) : d_output;
  for (auto i = blocks_.size(); i-- > 0;) d = blocks_[i].backward_input(run, d, saved.rows, saved.blocks[i]);
  if (!embedding_) return d;
  embedding_->backward_input(d, saved.embedding);
  return {};
}

void Stage::backward_weight(const Run& run, int micro_batch) {
  auto& saved = in_flight_.at(micro_batch);
  for (auto i = blocks_.size(); i-- > 0;) blocks_[i].backward_weight(run, saved.blocks[i]);
  if (embedding_) embedding_->backward_weight(run, saved.rows, saved.embedding);
  in_flight_.erase(micro_batch);
}

Tensor Stage::backward(const Run& run, int micro_batch, const Tensor& d_output) {
  auto& saved = in_flight_.at(micro_batch);
  auto d = head_ ? head_->backward_input(run, saved.head) : d_output;
  for (auto i = blocks_.size(); i-- > 0;) {
    d = blocks_[i].backward_input(run, d, saved.rows, saved.blocks[i]);
    blocks_[i].backward_weight(run, saved.blocks[i]);
  }
  if (embedding_) {
    embedding_->backward_input(d, saved.embedding);
    embedding_->backward_weight(run, saved.rows, saved.embedding);
  }
  in_flight_.erase(micro_batch);
  return embedding_ ? Tensor{} : d;
}

Tensor Stage::logits(const Run& run, const TokenRows& rows, const Tensor& input) {
  FF_CHECK(head_, "logits come from the last stage");
  Saved saved;
  return head_->logits(run, run_blocks(run, enter(run, rows, input), rows, saved));
}

}  // namespace fivefold
