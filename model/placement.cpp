// Compute cuts by kind of parameter: see the table in the design notes (docs/tour.md links it).
#include "model/placement.h"

namespace fivefold {

namespace {

Cut tp_cut(std::int64_t unit, int parts = 0) { return {.axes = {Axis::tp}, .parts = parts, .unit = unit}; }

PartitionSpec rows(Cut cut) { return PartitionSpec{}.with(0, std::move(cut)); }
PartitionSpec columns(Cut cut) { return PartitionSpec{}.with(1, std::move(cut)); }

// Fewer kv heads than tp ranks: neighbours hold the same head.
int kv_parts(const ModelConfig& config, const MeshLayout& mesh) {
  return static_cast<int>(std::min<std::int64_t>(mesh.size(Axis::tp), config.kv_heads));
}

Cut expert_cut(std::int64_t rows_per_expert) { return {.axes = {Axis::ep}, .unit = rows_per_expert}; }

// A table of rows gets its gradient row by row, a vector from sums of a layer's own; the others from
// products.
bool products_only(const ParamInfo& info) {
  const bool table = info.kind == ParamKind::embedding || info.kind == ParamKind::position;
  const bool routes = info.kind == ParamKind::router || info.kind == ParamKind::shared_gate;
  return info.shape.rank() == 2 && !table && !routes;
}

}  // namespace

PartitionSpec compute_spec(const ParamInfo& info, const ModelConfig& config, const MeshLayout& mesh) {
  const bool bias = info.shape.rank() == 1;
  switch (info.kind) {
    case ParamKind::embedding:
    case ParamKind::head:
    case ParamKind::gate:
    case ParamKind::up:
      return rows(tp_cut(1));
    case ParamKind::q:
    case ParamKind::q_norm:
      return rows(tp_cut(config.head_dim));
    case ParamKind::k:
    case ParamKind::v:
    case ParamKind::k_norm:
      return rows(tp_cut(config.head_dim, kv_parts(config, mesh)));
    case ParamKind::attention_out:
      return bias ? PartitionSpec{} : columns(tp_cut(config.head_dim));
    case ParamKind::down:
      return bias ? PartitionSpec{} : columns(tp_cut(1));
    case ParamKind::latent_b:
      return rows(tp_cut(info.shape[0] / config.heads));
    case ParamKind::expert_gate_up:
      return rows(expert_cut(2 * config.expert_ffn));
    case ParamKind::expert_down:
      return rows(expert_cut(config.hidden));
    case ParamKind::position:
    case ParamKind::norm:
    case ParamKind::head_norm:
    case ParamKind::router:
    case ParamKind::shared_gate:
    case ParamKind::latent_a:
    case ParamKind::latent_norm:
      return {};
  }
  return {};
}

std::deque<Param> place_parameters(const ModelConfig& config, const MeshLayout& mesh, int position) {
  std::deque<Param> params;
  for (const auto& info : parameter_list(config)) {
    Param p;
    p.name = info.name;
    p.global = info.shape;
    p.index = static_cast<int>(params.size());
    p.decay = info.decay();
    p.products_only = products_only(info);
    const bool expert = info.kind == ParamKind::expert_gate_up || info.kind == ParamKind::expert_down;
    p.view = expert ? View::sparse : View::dense;
    p.compute = compute_spec(info, config, mesh);
    place(p, mesh, position);
    params.push_back(std::move(p));
  }
  return params;
}

}  // namespace fivefold
