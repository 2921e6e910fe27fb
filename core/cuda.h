// CUDA devices without CUDA headers. In a build without CUDA there are none, and making something on one is
// an Error.
#pragma once
#include <memory>
#include <string>

#include "core/memory.h"
#include "core/stream.h"
#include "core/stream_timer.h"

namespace fivefold {

// Devices this process can use; 0 without a driver, a device or CUDA in this build.
int cuda_device_count();
// "NVIDIA H200, 139.8 GiB, compute 9.0".
std::string cuda_device_name(int device);
// "GPU-4f3c...": the same for every process of the host.
std::string cuda_device_uuid(int device);

std::unique_ptr<Stream> make_cuda_stream(int device);
// See make_stream_timer.
std::unique_ptr<StreamTimer> make_cuda_timer(int device);
// Stream-ordered pool of device memory: a buffer is reused once the work queued on its home stream before the
// release is done.
std::shared_ptr<Memory> make_cuda_memory(int device, MemoryOptions options = {});

// Page-locked host memory, which `device` copies to and from without the host waiting. Its buffers are those
// of a CPU device; one that is released is given out again once the work queued on its home stream before the
// release is done, so a copy from it may still be under way when its last owner drops it.
std::shared_ptr<Memory> make_pinned_memory(int device);

// dst = src in stream order, bytes; either side may be on the host. Called by core/copy for tensors of a CUDA
// device.
void cuda_copy(std::byte* dst, const std::byte* src, std::int64_t bytes, Stream& stream);

}  // namespace fivefold
