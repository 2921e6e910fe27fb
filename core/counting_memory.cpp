// Memory for dry runs: an account without bytes.
#include <mutex>

#include "core/memory_account.h"

namespace fivefold {

namespace {

// Where all buffers claim to be. Nothing reads or writes there.
std::byte* nowhere() {
  alignas(64) static std::byte place{};
  return &place;
}

class CountingPool : public std::enable_shared_from_this<CountingPool>, public Memory {
 public:
  std::shared_ptr<Buffer> allocate(std::int64_t bytes, Tag tag, Stream&) override;
  MemoryReport report() const override {
    std::lock_guard lock(mutex_);
    return account_.report();
  }
  void reset_peaks() override {
    std::lock_guard lock(mutex_);
    account_.reset_peaks();
  }
  void release(std::int64_t bytes, Tag tag) noexcept {
    std::lock_guard lock(mutex_);
    account_.remove(tag, bytes);
  }

 private:
  mutable std::mutex mutex_;
  MemoryAccount account_;
};

class CountedBuffer final : public Buffer {
 public:
  CountedBuffer(std::shared_ptr<CountingPool> pool, std::int64_t bytes, Tag tag)
      : Buffer(nowhere(), bytes, {DeviceKind::none, 0}), pool_(std::move(pool)), tag_(tag) {}
  ~CountedBuffer() override { pool_->release(bytes(), tag_); }

 private:
  std::shared_ptr<CountingPool> pool_;
  Tag tag_;
};

std::shared_ptr<Buffer> CountingPool::allocate(std::int64_t bytes, Tag tag, Stream&) {
  FF_CHECK(bytes >= 0, "asked for ", bytes, " bytes of ", name_of(tag));
  {
    std::lock_guard lock(mutex_);
    account_.add(tag, bytes);
  }
  return std::make_shared<CountedBuffer>(shared_from_this(), bytes, tag);
}

}  // namespace

std::shared_ptr<Memory> make_counting_memory() { return std::make_shared<CountingPool>(); }

}  // namespace fivefold
