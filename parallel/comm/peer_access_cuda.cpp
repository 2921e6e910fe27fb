// Access of one GPU to the memory of another.
#include <cuda.h>

#include "core/cuda_check.h"
#include "parallel/comm/device_work.h"

namespace fivefold {

namespace {

// The pool that an address was allocated from, null for other memory. A function of the driver, which this
// program is not linked with, so that it starts where there is none.
cudaMemPool_t pool_of(const std::byte* data) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  FF_CUDA(
      cudaGetDriverEntryPointByVersion("cuPointerGetAttribute", &function, 11030, cudaEnableDefault, &found));
  FF_CHECK(found == cudaDriverEntryPointSuccess, "the driver has no cuPointerGetAttribute");
  const auto attribute = reinterpret_cast<decltype(&cuPointerGetAttribute)>(function);
  CUmemoryPool pool = nullptr;
  const auto address = reinterpret_cast<CUdeviceptr>(data);
  return attribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address) == CUDA_SUCCESS ? pool : nullptr;
}

void open_pool(cudaMemPool_t pool, int device) {
  cudaMemAccessDesc access{};
  access.location = {.type = cudaMemLocationTypeDevice, .id = device};
  FF_CUDA(cudaMemPoolGetAccess(&access.flags, pool, &access.location));
  if (access.flags == cudaMemAccessFlagsProtReadWrite) return;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  FF_CUDA(cudaMemPoolSetAccess(pool, &access, 1));
}

// For memory outside of pools.
void open_device(int home, int device) {
  FF_CUDA(cudaSetDevice(device));
  const auto status = cudaDeviceEnablePeerAccess(home, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled)
    cudaGetLastError();
  else
    FF_CUDA(status);
}

}  // namespace

KeepCurrentDevice::KeepCurrentDevice() { FF_CUDA(cudaGetDevice(&device_)); }
KeepCurrentDevice::~KeepCurrentDevice() { cudaSetDevice(device_); }

void give_access(const std::byte* data, int home, int device) {
  if (home == device) return;
  int can = 0;
  FF_CUDA(cudaDeviceCanAccessPeer(&can, device, home));
  FF_CHECK(can != 0, "GPU ", device, " cannot reach the memory of GPU ", home);
  if (auto* const pool = pool_of(data))
    open_pool(pool, device);
  else
    open_device(home, device);
}

}  // namespace fivefold
