// Turns MPI error codes into exceptions. Needs no MPI header; communicators return errors instead of
// aborting.
#pragma once
#include <string_view>

namespace fivefold {

// Throws Error with MPI's own text for the code. Usable between the initialisation and the end of MPI.
[[noreturn]] void fail_mpi(const char* file, int line, std::string_view call, int code);

}  // namespace fivefold

// MPI fixes success as 0.
#define FF_MPI(call)                                            \
  do {                                                          \
    if (const int ff_code = (call); ff_code != 0) [[unlikely]]  \
      ::fivefold::fail_mpi(__FILE__, __LINE__, #call, ff_code); \
  } while (false)
