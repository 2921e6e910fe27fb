// A named range on the timeline of an external profiler (NVTX: Nsight Systems, Nsight Compute). A few
// nanoseconds while no profiler looks, nothing in a build without CUDA.
#pragma once

namespace fivefold {

// Ranges of one thread nest.
class ProfilerRange {
 public:
  // `name` ends with a zero and is read at once.
  explicit ProfilerRange(const char* name);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
};

}  // namespace fivefold
