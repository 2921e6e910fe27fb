// Reads the affinity mask.
#include "launcher/affinity.h"

#include <sched.h>

#include "core/error.h"

namespace fivefold {

int usable_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
}

std::string affinity_warning(int threads, int cores) {
  if (threads <= cores) return {};
  return str("train.threads=", threads, " on ", cores, cores == 1 ? " usable core" : " usable cores",
             ": threads will take turns. Start with mpirun --bind-to none, or srun -c ", threads);
}

}  // namespace fivefold
