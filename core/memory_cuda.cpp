// Device memory from the driver's stream-ordered allocator (cudaMallocAsync), kept by a pool of our own: it
// never shrinks, so a training step allocates without going to the driver.
#include <cuda_runtime_api.h>

#include <mutex>

#include "core/cuda.h"
#include "core/cuda_check.h"
#include "core/memory_account.h"

namespace fivefold {

namespace {

cudaStream_t native(Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

class CudaPool : public std::enable_shared_from_this<CudaPool>, public Memory {
 public:
  CudaPool(int device, MemoryOptions options) : device_(device), options_(options) {
    FF_CUDA(cudaSetDevice(device));  // or the calls below would wake the present one
    cudaMemPoolProps props{};
    props.allocType = cudaMemAllocationTypePinned;
    props.location = {.type = cudaMemLocationTypeDevice, .id = device};
    FF_CUDA(cudaMemPoolCreate(&pool_, &props));
    std::uint64_t keep_all = ~std::uint64_t{0};
    FF_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep_all));
  }
  ~CudaPool() override { cudaMemPoolDestroy(pool_); }

  std::shared_ptr<Buffer> allocate(std::int64_t bytes, Tag tag, Stream& home) override;
  MemoryReport report() const override {
    std::lock_guard lock(mutex_);
    return account_.report();
  }
  void reset_peaks() override {
    std::lock_guard lock(mutex_);
    account_.reset_peaks();
  }
  void release(std::byte* data, std::int64_t bytes, Tag tag, cudaStream_t home) noexcept {
    cudaFreeAsync(data, home);
    std::lock_guard lock(mutex_);
    account_.remove(tag, bytes);
  }

 private:
  OutOfMemory::Room room() const;

  int device_;
  MemoryOptions options_;
  cudaMemPool_t pool_ = nullptr;
  mutable std::mutex mutex_;
  MemoryAccount account_;
};

// The home stream outlives its buffers: whoever owns the stream drops its tensors first.
class CudaBuffer final : public Buffer {
 public:
  CudaBuffer(std::shared_ptr<CudaPool> pool, std::byte* data, std::int64_t bytes, int device, Tag tag,
             cudaStream_t home)
      : Buffer(data, bytes, {DeviceKind::cuda, device}), pool_(std::move(pool)), tag_(tag), home_(home) {}
  ~CudaBuffer() override { pool_->release(data(), bytes(), tag_, home_); }

 private:
  std::shared_ptr<CudaPool> pool_;
  Tag tag_;
  cudaStream_t home_;
};

// What the device says of itself. Buffers that were released but are not yet free count as the pool's.
OutOfMemory::Room CudaPool::room() const {
  cudaGetLastError();  // the failure that is being reported
  FF_CUDA(cudaSetDevice(device_));
  std::size_t free = 0, total = 0;
  std::uint64_t reserved = 0;
  FF_CUDA(cudaMemGetInfo(&free, &total));
  FF_CUDA(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved));
  const auto gib = [](auto bytes) { return str(static_cast<double>(bytes / (1 << 20)) / 1024.0, " GiB"); };
  return {static_cast<std::int64_t>(free + reserved),
          str("CUDA device ", device_, " has ", gib(total), ", ", gib(free),
              " of it free; this rank's pool holds ", gib(reserved),
              ", the rest is other programs' and the driver's")};
}

std::shared_ptr<Buffer> CudaPool::allocate(std::int64_t bytes, Tag tag, Stream& home) {
  FF_CHECK(bytes >= 0, "asked for ", bytes, " bytes of ", name_of(tag));
  std::lock_guard lock(mutex_);
  account_.check_limit(options_, tag, bytes);
  void* data = nullptr;
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  const auto status = cudaMallocFromPoolAsync(&data, size, pool_, native(home));
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory(bytes, tag, room(), account_.report());
  FF_CUDA(status);
  account_.add(tag, bytes);
  if (options_.poison) FF_CUDA(cudaMemsetAsync(data, 0xff, size, native(home)));
  return std::make_shared<CudaBuffer>(shared_from_this(), static_cast<std::byte*>(data), bytes, device_, tag,
                                      native(home));
}

}  // namespace

std::shared_ptr<Memory> make_cuda_memory(int device, MemoryOptions options) {
  return std::make_shared<CudaPool>(device, options);
}

}  // namespace fivefold
