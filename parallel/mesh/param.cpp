// Storage cuts and replica axes of a parameter, derived from its compute cuts.
#include "parallel/mesh/param.h"

namespace fivefold {

std::vector<Axis> storage_axes(View view) {
  return view == View::dense ? std::vector{Axis::shard, Axis::cp} : std::vector{Axis::edp};
}

std::vector<Axis> replica_axes(const Param& param, const MeshLayout& mesh) {
  std::vector<Axis> axes{Axis::replicate};
  if (param.view == View::dense && mesh.size(Axis::tp) > 1 && !param.compute.cuts_axis(Axis::tp)) axes.push_back(Axis::tp);
  return axes;
}

void place(Param& param, const MeshLayout& mesh, int position) {
  param.storage = param.compute.with(0, Cut{.axes = storage_axes(param.view)});
  param.compute_box = box_of(param.global, param.compute, mesh, position);
  param.storage_box = box_of(param.global, param.storage, mesh, position);
}

}  // namespace fivefold
