// Everything a layer may touch while it runs. Handed down, never global: two models live in one process.
#pragma once
#include "core/tensor.h"
#include "kernels/backend.h"
#include "parallel/mesh/mesh.h"

namespace fivefold {

struct Run {
  Backend& kernels;
  Stream& stream;  // the compute stream
  Memory& memory;
  const DeviceMesh& mesh;
  DType dtype;  // activations and the weights that kernels see

  DType accum() const { return accum_dtype(dtype); }
  template <class Op>
  void operator()(const Op& op) const {
    kernels.run(op, stream);
  }
  Tensor empty(Shape shape, DType type, Tag tag = Tag::activations) const {
    return fivefold::empty(memory, shape, type, tag, stream);
  }
  Tensor activation(Shape shape) const { return empty(shape, dtype); }
  Tensor zeros(Shape shape, DType type, Tag tag) const {
    auto t = empty(shape, type, tag);
    (*this)(Fill{.x = t, .value = 0});
    return t;
  }
};

}  // namespace fivefold
