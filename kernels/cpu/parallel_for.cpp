// The only file with threads of the CPU ops. OpenMP keeps a team per calling thread, so ranks that are
// threads of one process have teams of their own.
#include "kernels/cpu/parallel_for.h"

#include <omp.h>

#include <exception>

namespace fivefold::cpu {

void run_parts(std::int64_t parts, void (*run)(void* state, std::int64_t part), void* state) {
  std::exception_ptr error;
  const int team = static_cast<int>(std::min<std::int64_t>(parts, omp_get_max_threads()));
#pragma omp parallel for schedule(static, 1) num_threads(team)
  for (std::int64_t part = 0; part < parts; ++part) {
    try {
      run(state, part);
    } catch (...) {
#pragma omp critical(fivefold_run_parts_error)
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace fivefold::cpu
