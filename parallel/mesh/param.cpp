// Storage cuts and replica axes of a parameter, derived from its compute cuts.
#include "parallel/mesh/param.h"

#include <algorithm>
#include <utility>

namespace fivefold {

bool first_sum(std::span<Param* const> params) {
  FF_CHECK(!params.empty());
  const bool first = params.front()->fresh;
  for (auto* p : params) FF_CHECK_EQ(std::exchange(p->fresh, false), first, p->name);
  return first;
}

std::vector<Axis> storage_axes(View view) {
  return view == View::dense ? std::vector{Axis::shard, Axis::cp} : std::vector{Axis::edp};
}

namespace {

// Into how many parts `axis` cuts the tensor; 1 where it does not.
int parts_over(const PartitionSpec& spec, Axis axis, const MeshLayout& mesh) {
  for (const auto& cuts : spec.cuts)
    for (const auto& cut : cuts)
      if (std::find(cut.axes.begin(), cut.axes.end(), axis) != cut.axes.end())
        return cut.parts > 0 ? cut.parts : mesh.size(axis);
  return 1;
}

}  // namespace

ReplicaAxes replica_axes(const Param& param, const MeshLayout& mesh) {
  const int tp = mesh.size(Axis::tp);
  if (param.view == View::sparse || tp == 1) return {{Axis::replicate}};
  const int parts = parts_over(param.compute, Axis::tp, mesh);
  if (parts == tp) return {{Axis::replicate}};
  return {{Axis::replicate, Axis::tp}, parts > 1 ? parts : 0};
}

void place(Param& param, const MeshLayout& mesh, int position) {
  param.storage = param.compute.with(0, Cut{.axes = storage_axes(param.view)});
  param.compute_box = box_of(param.global, param.compute, mesh, position);
  param.storage_box = box_of(param.global, param.storage, mesh, position);
}

}  // namespace fivefold
