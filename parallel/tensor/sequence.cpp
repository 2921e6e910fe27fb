// Row moves over the tp group.
#include "parallel/tensor/sequence.h"

namespace fivefold {

namespace {
Communicator& tp_group(const Run& run) { return run.mesh.over({Axis::tp}, "activations"); }

Shape with_rows(Shape shape, std::int64_t rows) {
  shape[0] = rows;
  return shape;
}
}  // namespace

Tensor gather_rows(const Run& run, const Tensor& x) {
  auto& tp = tp_group(run);
  if (tp.size() == 1) return x;
  auto out = run.empty(with_rows(x.shape(), x.dim(0) * tp.size()), x.dtype());
  tp.all_gather(out, x, run.stream).wait(run.stream);
  return out;
}

Tensor reduce_scatter_rows(const Run& run, const Tensor& x) {
  auto& tp = tp_group(run);
  if (tp.size() == 1) return x;
  FF_CHECK_EQ(x.dim(0) % tp.size(), 0, "rows are padded to tp");
  auto out = run.empty(with_rows(x.shape(), x.dim(0) / tp.size()), x.dtype());
  tp.reduce_scatter(out, x, run.stream).wait(run.stream);
  return out;
}

Tensor own_rows(const Run& run, const Tensor& x) {
  auto& tp = tp_group(run);
  const auto rows = x.dim(0) / tp.size();
  return x.rows(tp.rank() * rows, (tp.rank() + 1) * rows);
}

}  // namespace fivefold
