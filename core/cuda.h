// CUDA devices without CUDA headers. In a build without CUDA there are none, and making something on one is
// an Error.
#pragma once
#include <memory>
#include <string>

#include "core/memory.h"
#include "core/stream.h"

namespace fivefold {

// Devices this process can use; 0 without a driver, a device or CUDA in this build.
int cuda_device_count();
// "NVIDIA H200, 139.8 GiB, compute 9.0".
std::string cuda_device_name(int device);

std::unique_ptr<Stream> make_cuda_stream(int device);
// Stream-ordered pool of device memory: a buffer is reused once the work queued on its home stream before the
// release is done.
std::shared_ptr<Memory> make_cuda_memory(int device, MemoryOptions options = {});

// dst = src in stream order, bytes; either side may be on the host. Called by core/copy for tensors of a CUDA
// device.
void cuda_copy(std::byte* dst, const std::byte* src, std::int64_t bytes, Stream& stream);

}  // namespace fivefold
