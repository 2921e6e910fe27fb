// Small words that the two halves of a unit share.
#pragma once
#include "parallel/mesh/param.h"
#include "parallel/run.h"

namespace fivefold {

inline Shape with_rows(Shape shape, std::int64_t rows) {
  shape[0] = rows;
  return shape;
}

// Ranks over which the parameter's rows are cut between steps.
inline Communicator& storage_group(const Run& run, const Param& param) {
  return run.mesh.over(storage_axes(param.view), "weights");
}

// Ranks that hold the same storage box: their gradients are parts of one sum.
inline Communicator& replica_group(const Run& run, const Param& param) {
  const auto group = replica_axes(param, run.mesh.layout());
  return run.mesh.over(group.axes, "weights", group.parts);
}

}  // namespace fivefold
