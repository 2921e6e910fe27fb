// Rows from placement, columns of text.
#include "launcher/explain.h"

#include "launcher/engine_options.h"
#include "launcher/text_table.h"
#include "model/placement.h"

namespace fivefold {

namespace {

GradientSum sum_over(GradientSum::How how, const ReplicaAxes& group, const MeshLayout& mesh) {
  return {.how = how,
          .axes = group.axes,
          .parts = group.parts,
          .ranks = mesh.size(group.axes) / std::max(group.parts, 1)};
}

GradientRow row_of(const Param& param, const ParamInfo& info, const ModelConfig& model,
                   const MeshLayout& mesh, const PipelinePlan& plan) {
  GradientRow row{.name = param.name,
                  .shape = param.global,
                  .compute = param.compute,
                  .storage = param.storage,
                  .pp_ranks = pp_ranks_of(info, model, plan),
                  .sums = {}};
  row.two_uses = info.kind == ParamKind::embedding && model.tie_embeddings && row.pp_ranks.size() == 1;
  row.holders = static_cast<int>(row.pp_ranks.size()) * (mesh.shape().world() / mesh.shape().pp);
  const auto add = [&](const GradientSum& sum) {
    if (sum.ranks > 1) row.sums.push_back(sum);
  };
  add({.how = GradientSum::How::pair, .axes = {Axis::pp}, .ranks = static_cast<int>(row.pp_ranks.size())});
  add(sum_over(GradientSum::How::reduce_scatter, {storage_axes(param.view)}, mesh));
  add(sum_over(GradientSum::How::all_reduce, replica_axes(param, mesh), mesh));
  return row;
}

std::string joined(const std::vector<int>& values) {
  std::string text;
  for (const int v : values) text += str(text.empty() ? "" : ",", v);
  return text;
}

std::string to_text(const GradientSum& sum) {
  if (sum.how == GradientSum::How::pair) return "add both pp ranks";
  std::string text = sum.how == GradientSum::How::reduce_scatter ? "reduce-scatter " : "all-reduce ";
  for (std::size_t i = 0; i < sum.axes.size(); ++i) text += str(i ? "*" : "", name_of(sum.axes[i]));
  if (sum.parts > 0) text += str(" within each of ", sum.parts, " ", name_of(sum.axes.back()), " parts");
  return str(text, " (", sum.ranks, ")");
}

std::string sums_text(const GradientRow& row) {
  std::string text = row.two_uses ? "add both uses" : "";
  for (const auto& sum : row.sums) text += (text.empty() ? "" : ", ") + to_text(sum);
  return text.empty() ? "none" : text;
}

}  // namespace

ArgumentSpec explain_option() {
  return {kExplainOption, "",
          "first print every parameter, its cuts and the ranks its gradient is summed over"};
}

int GradientRow::parts_of_sum() const {
  int ranks = 1;
  for (const auto& sum : sums) ranks *= sum.ranks;
  return ranks;
}

std::vector<GradientRow> explain_gradients(const ModelConfig& model, const MeshShape& shape,
                                           const PipelinePlan& plan) {
  const MeshLayout mesh(shape);
  const auto params = place_parameters(model, mesh, 0);
  const auto infos = parameter_list(model);
  std::vector<GradientRow> rows;
  for (std::size_t i = 0; i < infos.size(); ++i)
    rows.push_back(row_of(params[i], infos[i], model, mesh, plan));
  return rows;
}

std::string to_text(const std::vector<GradientRow>& rows, const MeshShape& mesh) {
  std::vector<std::vector<std::string>> lines{
      {"parameter", "shape", "kernels see", "between steps", "pp", "ranks", "sum of", "gradient"}};
  for (const auto& row : rows)
    lines.push_back({row.name, str(row.shape), to_string(row.compute), to_string(row.storage),
                     joined(row.pp_ranks), str(row.holders), str(row.parts_of_sum()), sums_text(row)});
  return str("gradients on ", to_string(mesh), " = ", mesh.world(),
             mesh.world() == 1 ? " rank\n" : " ranks\n",
             "d0 tp(u)/n: rows cut over tp in units of u, in n parts where that is not the axis; ranks: hold "
             "a part of the "
             "parameter; sum of: gradients of so many ranks\n",
             text_table(lines));
}

std::string explain_gradients(const Config& config, int world) {
  const auto options = engine_options(config, world);
  return to_text(explain_gradients(config.model, options.mesh,
                                   plan_pipeline(config.model, options.mesh.pp, options.pipeline)),
                 options.mesh);
}

}  // namespace fivefold
