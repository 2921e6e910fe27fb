// Construction of the CPU backend and the forwarding of its ops.
#include "kernels/cpu/cpu_backend.h"

#include "kernels/cpu/execute.h"

namespace fivefold {

CpuBackend::CpuBackend(CpuBackendOptions options)
    : context_{options.threads, options.thread_work, scratch_, products_} {
  if (options.threads < 1) throw UserError(str("train.threads is at least 1, not ", options.threads));
}

template <class Op>
void CpuBackend::execute(const Op& op, Stream&) {
  cpu::execute(op, context_);
}

std::unique_ptr<Backend> make_cpu_backend(CpuBackendOptions options) {
  return std::make_unique<CpuBackend>(options);
}

}  // namespace fivefold
