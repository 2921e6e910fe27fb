// Construction of the CUDA backend and the forwarding of its ops.
#include "core/cuda.h"
#include "core/cuda_check.h"
#include "core/profiler_range.h"
#include "kernels/cuda/cuda_backend.cuh"
#include "kernels/cuda/execute.cuh"
#include "kernels/cuda_backend.h"

namespace fivefold {

namespace {

// Made current before anything of the backend is made on it.
int current(int device) {
  const int count = cuda_device_count();
  if (device < 0 || device >= count)
    throw UserError(str("CUDA device ", device, " is none of the ", count, " here"));
  FF_CUDA(cudaSetDevice(device));
  return device;
}

}  // namespace

CudaBackend::CudaBackend(int device, std::shared_ptr<Memory> memory, ProductChoice choice)
    : device_(current(device)),
      scratch_(memory ? std::move(memory) : make_cuda_memory(device)),
      products_(scratch_, choice) {}

template <class Op>
void CudaBackend::execute(const Op& op, Stream& stream) {
  FF_CHECK(stream.device() == (Device{DeviceKind::cuda, device_}), Op::kName,
           " on a stream of another device");
  FF_CUDA(cudaSetDevice(device_));
  scratch_.work_on(stream);
  const ProfilerRange range(Op::kName.data());
  cuda::execute(op, cuda::CudaContext{static_cast<cudaStream_t>(stream.native()), scratch_, products_});
}

std::unique_ptr<Backend> make_cuda_backend(int device, std::shared_ptr<Memory> memory, ProductChoice choice) {
  return std::make_unique<CudaBackend>(device, std::move(memory), choice);
}

}  // namespace fivefold
