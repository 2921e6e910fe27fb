// FF_CUDA(expr): throws Error with the statement, file, line and the runtime's words unless expr is
// cudaSuccess. Included by CUDA files only.
#pragma once
#include <cuda_runtime_api.h>

#include "core/error.h"

namespace fivefold {

inline void check_cuda(cudaError_t status, const char* statement, const char* file, int line) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // the error is reported here; a later call does not see it again
  fail(file, line, statement, str(cudaGetErrorName(status), ": ", cudaGetErrorString(status)));
}

}  // namespace fivefold

#define FF_CUDA(expr) ::fivefold::check_cuda((expr), #expr, __FILE__, __LINE__)
