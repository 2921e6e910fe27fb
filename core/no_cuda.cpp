// A build without CUDA: no devices.
#include "core/cuda.h"
#include "core/profiler_range.h"

namespace fivefold {

namespace {
[[noreturn]] void absent() {
  throw Error("this build has no CUDA: build where a CUDA toolkit is found, or use train.device=cpu");
}
}  // namespace

int cuda_device_count() { return 0; }
std::string cuda_device_name(int) { absent(); }
std::string cuda_device_uuid(int) { absent(); }
std::unique_ptr<Stream> make_cuda_stream(int) { absent(); }
std::unique_ptr<StreamTimer> make_cuda_timer(int) { absent(); }
std::shared_ptr<Memory> make_cuda_memory(int, MemoryOptions) { absent(); }
std::shared_ptr<Memory> make_pinned_memory(int) { absent(); }
void cuda_copy(std::byte*, const std::byte*, std::int64_t, Stream&) { absent(); }

ProfilerRange::ProfilerRange(const char*) {}
ProfilerRange::~ProfilerRange() = default;

}  // namespace fivefold
