// The two kinds of devices that a run can have.
#include "launcher/compute_device.h"

#include "core/cuda.h"
#include "kernels/cuda_backend.h"

namespace fivefold {

ComputeDevice open_device(Device device, int threads, MemoryOptions memory, bool deterministic) {
  FF_CHECK(device.kind != DeviceKind::none, "nothing runs nowhere");
  if (device.kind == DeviceKind::cpu)
    return {make_cpu_memory(memory), make_cpu_memory(), std::make_unique<CpuStream>(),
            make_cpu_backend({.threads = threads})};
  const auto pool = make_cuda_memory(device.index, memory);
  return {
      pool, make_pinned_memory(device.index), make_cuda_stream(device.index),
      make_cuda_backend(device.index, pool, deterministic ? ProductChoice::first : ProductChoice::fastest)};
}

}  // namespace fivefold
