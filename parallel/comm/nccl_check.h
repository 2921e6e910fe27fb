// FF_NCCL(call): throws Error with the call and NCCL's words. A nonblocking call that is under way is no
// error.
#pragma once
#include <nccl.h>

#include "core/error.h"

namespace fivefold {

// `comm`: whose last error to tell; may be null.
inline void check_nccl(ncclResult_t result, const char* call, const char* file, int line,
                       ncclComm_t comm = nullptr) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const char* detail = ncclGetLastError(comm);
  fail(file, line, call,
       str("NCCL: ", ncclGetErrorString(result), detail && *detail ? ": " : "", detail ? detail : ""));
}

}  // namespace fivefold

#define FF_NCCL(call) ::fivefold::check_nccl((call), #call, __FILE__, __LINE__)
