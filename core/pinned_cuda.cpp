// Page-locked host memory: what a device copies to and from while the host goes on. Blocks are kept for ever
// (pinning is slow) and given out again once the work queued before their release is done.
#include <cuda_runtime_api.h>

#include <bit>
#include <mutex>
#include <optional>
#include <vector>

#include "core/cuda.h"
#include "core/cuda_check.h"
#include "core/memory_account.h"

namespace fivefold {

namespace {

constexpr std::int64_t kSmallest = 4096;  // bytes; capacities are this times a power of two

std::int64_t capacity_for(std::int64_t bytes) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(bytes, kSmallest))));
}

struct Block {
  std::byte* data = nullptr;
  std::int64_t capacity = 0;
  cudaEvent_t released = nullptr;
};

class PinnedPool : public std::enable_shared_from_this<PinnedPool>, public Memory {
 public:
  explicit PinnedPool(int device) : device_(device) {}
  ~PinnedPool() override {
    for (const auto& block : free_) {
      cudaEventDestroy(block.released);
      cudaFreeHost(block.data);
    }
  }

  std::shared_ptr<Buffer> allocate(std::int64_t bytes, Tag tag, Stream& home) override;
  MemoryReport report() const override {
    std::lock_guard lock(mutex_);
    return account_.report();
  }
  void reset_peaks() override {
    std::lock_guard lock(mutex_);
    account_.reset_peaks();
  }
  void release(const Block& block, std::int64_t bytes, Tag tag, cudaStream_t home) noexcept {
    if (home) cudaEventRecord(block.released, home);
    std::lock_guard lock(mutex_);
    account_.remove(tag, bytes);
    free_.push_back(block);
  }

 private:
  // A free block of this capacity that no queued work uses any more.
  std::optional<Block> reused(std::int64_t capacity);
  Block pinned(std::int64_t capacity) const;

  int device_;
  mutable std::mutex mutex_;
  std::vector<Block> free_;
  MemoryAccount account_;
};

class PinnedBuffer final : public Buffer {
 public:
  PinnedBuffer(std::shared_ptr<PinnedPool> pool, Block block, std::int64_t bytes, Tag tag, cudaStream_t home)
      : Buffer(block.data, bytes, {}), pool_(std::move(pool)), block_(block), tag_(tag), home_(home) {}
  ~PinnedBuffer() override { pool_->release(block_, bytes(), tag_, home_); }

 private:
  std::shared_ptr<PinnedPool> pool_;
  Block block_;
  Tag tag_;
  cudaStream_t home_;  // null: a host stream, whose work is done when its call returns
};

std::optional<Block> PinnedPool::reused(std::int64_t capacity) {
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    if (at->capacity != capacity || cudaEventQuery(at->released) != cudaSuccess) continue;
    const auto block = *at;
    free_.erase(at);
    return block;
  }
  cudaGetLastError();  // "not ready" is no error
  return {};
}

Block PinnedPool::pinned(std::int64_t capacity) const {
  Block block{.capacity = capacity};
  void* data = nullptr;
  FF_CUDA(cudaSetDevice(device_));
  FF_CUDA(cudaHostAlloc(&data, static_cast<std::size_t>(capacity), cudaHostAllocPortable));
  FF_CUDA(cudaEventCreateWithFlags(&block.released, cudaEventDisableTiming));
  block.data = static_cast<std::byte*>(data);
  return block;
}

std::shared_ptr<Buffer> PinnedPool::allocate(std::int64_t bytes, Tag tag, Stream& home) {
  FF_CHECK(bytes >= 0, "asked for ", bytes, " bytes of ", name_of(tag));
  const auto capacity = capacity_for(bytes);
  std::lock_guard lock(mutex_);
  auto block = reused(capacity);
  if (!block) block = pinned(capacity);
  account_.add(tag, bytes);
  return std::make_shared<PinnedBuffer>(shared_from_this(), *block, bytes, tag,
                                        static_cast<cudaStream_t>(home.native()));
}

}  // namespace

std::shared_ptr<Memory> make_pinned_memory(int device) { return std::make_shared<PinnedPool>(device); }

}  // namespace fivefold
