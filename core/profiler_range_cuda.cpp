// Ranges by way of NVTX, whose headers are all there is to it: a profiler brings the rest.
#include <nvtx3/nvToolsExt.h>

#include "core/profiler_range.h"

namespace fivefold {

ProfilerRange::ProfilerRange(const char* name) { nvtxRangePushA(name); }
ProfilerRange::~ProfilerRange() { nvtxRangePop(); }

}  // namespace fivefold
