// How many cores this process may use. Launchers bind ranks to fewer than people expect.
#pragma once
#include <string>

namespace fivefold {

// Size of the process's affinity mask.
int usable_cores();
// A sentence for the log when a rank's threads outnumber its cores, else empty.
std::string affinity_warning(int threads, int cores);

}  // namespace fivefold
