// The CPU backend: sends every op to its function of execute.h. One per rank; its ops run inside the call.
#pragma once
#include "kernels/backend.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/products.h"

namespace fivefold {

class CpuBackend final : public Implements<CpuBackend, Backend, AllOps> {
 public:
  explicit CpuBackend(CpuBackendOptions options);
  DeviceKind device() const override { return DeviceKind::cpu; }

  template <class Op>
  void execute(const Op& op, Stream& stream);

 private:
  cpu::Scratch scratch_;
  cpu::Products products_;
  cpu::CpuContext context_;
};

}  // namespace fivefold
