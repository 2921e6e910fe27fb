// The CUDA backend: sends every op to its function of execute.cuh. One per rank.
#pragma once
#include "kernels/backend.h"
#include "kernels/cuda/context.cuh"
#include "kernels/cuda/products.cuh"

namespace fivefold {

class CudaBackend final : public Implements<CudaBackend, Backend, AllOps> {
 public:
  CudaBackend(int device, std::shared_ptr<Memory> memory, ProductChoice choice);
  DeviceKind device() const override { return DeviceKind::cuda; }

  template <class Op>
  void execute(const Op& op, Stream& stream);

 private:
  int device_;
  cuda::Scratch scratch_;
  cuda::LtProducts products_;
};

}  // namespace fivefold
