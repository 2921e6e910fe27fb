// Host memory pool: freed blocks are kept by size and handed out again, since fresh pages cost more than the
// work on them.
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "core/memory_account.h"

namespace fivefold {

namespace {

constexpr std::int64_t kAlignment = 64;

// Sizes are rounded to an eighth of their power of two, so that nearly equal requests share blocks (waste
// < 12.5 %).
std::int64_t size_class(std::int64_t bytes) {
  if (bytes <= 8 * kAlignment) return round_up(std::max<std::int64_t>(bytes, 1), kAlignment);
  const auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)) / 8);
  return round_up(bytes, step);
}

class CpuPool : public std::enable_shared_from_this<CpuPool>, public Memory {
 public:
  explicit CpuPool(MemoryOptions options) : options_(options) {}
  ~CpuPool() override {
    for (auto& [size, blocks] : free_)
      for (auto* p : blocks) std::free(p);
  }

  std::shared_ptr<Buffer> allocate(std::int64_t bytes, Tag tag, Stream&) override;
  MemoryReport report() const override {
    std::lock_guard lock(mutex_);
    return account_.report();
  }
  void reset_peaks() override {
    std::lock_guard lock(mutex_);
    account_.reset_peaks();
  }
  void release(std::byte* block, std::int64_t bytes, Tag tag) noexcept {
    std::lock_guard lock(mutex_);
    account_.remove(tag, bytes);
    free_[size_class(bytes)].push_back(block);
  }

 private:
  std::byte* take(std::int64_t bytes, Tag tag) {
    const auto size = size_class(bytes);
    std::lock_guard lock(mutex_);
    account_.check_limit(options_, tag, bytes);
    account_.add(tag, bytes);
    auto& blocks = free_[size];
    if (blocks.empty())
      return static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<std::size_t>(size)));
    auto* block = blocks.back();
    blocks.pop_back();
    return block;
  }

  MemoryOptions options_;
  mutable std::mutex mutex_;
  MemoryAccount account_;
  std::map<std::int64_t, std::vector<std::byte*>> free_;
};

class CpuBuffer final : public Buffer {
 public:
  CpuBuffer(std::shared_ptr<CpuPool> pool, std::byte* data, std::int64_t bytes, Tag tag)
      : Buffer(data, bytes, Device{}), pool_(std::move(pool)), tag_(tag) {}
  ~CpuBuffer() override { pool_->release(data(), bytes(), tag_); }

 private:
  std::shared_ptr<CpuPool> pool_;
  Tag tag_;
};

std::shared_ptr<Buffer> CpuPool::allocate(std::int64_t bytes, Tag tag, Stream&) {
  FF_CHECK(bytes >= 0, "asked for ", bytes, " bytes of ", name_of(tag));
  auto* block = take(bytes, tag);
  if (!block) throw OutOfMemory(bytes, tag, {0, "the machine has no more to give"}, report());
  if (options_.poison) std::memset(block, 0xff, static_cast<std::size_t>(bytes));
  return std::make_shared<CpuBuffer>(shared_from_this(), block, bytes, tag);
}

}  // namespace

std::shared_ptr<Memory> make_cpu_memory(MemoryOptions options) { return std::make_shared<CpuPool>(options); }

}  // namespace fivefold
