// Tagged device memory. Every allocation names what it is for; the high-water mark of each tag is the memory
// report. A Buffer returns to its pool when its last owner drops it, ordered after the work queued on its
// home stream.
#pragma once
#include <array>
#include <memory>
#include <string>

#include "core/stream.h"
#include "core/types.h"

namespace fivefold {

enum class Tag : std::uint8_t {
  weights,
  gradients,
  master,
  moments,
  activations,
  workspace,
  communication,
  data,
  staging
};
constexpr int kTags = 9;
std::string_view name_of(Tag tag);

// One allocation. Owns its bytes; freed through the pool that made it.
class Buffer {
 public:
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 protected:
  Buffer(std::byte* data, std::int64_t bytes, Device device) : data_(data), bytes_(bytes), device_(device) {}

 private:
  std::byte* data_;
  std::int64_t bytes_;
  Device device_;
};

// Bytes in use now and at most, per tag and together. `peak_total` is the peak of the sum, not the sum of
// peaks.
struct MemoryReport {
  std::array<std::int64_t, kTags> now{}, peak{};
  std::int64_t now_total = 0, peak_total = 0;
};
// One line a tag, largest peak first.
std::string to_string(const MemoryReport& report);

struct MemoryOptions {
  bool poison = false;  // fill every new buffer with 0xff bytes (NaN in f64, f32 and bf16): tests find
                        // unwritten outputs
  std::int64_t limit_bytes = 0;  // of all buffers together, more is refused as if there were no more; 0: no
                                 // limit but the device's
};

// A pool had no room. The text says what was asked for, what there is, and what is in use by tag.
class OutOfMemory : public Error {
 public:
  // What the rank may have at most, all buffers together (0: not known), and sentences about it.
  struct Room {
    std::int64_t bytes = 0;
    std::string text;
  };
  OutOfMemory(std::int64_t bytes, Tag tag, const Room& room, const MemoryReport& report);
  // The same with what the bytes were for.
  OutOfMemory(const OutOfMemory& error, const std::string& what);

  std::int64_t bytes() const { return bytes_; }
  Tag tag() const { return tag_; }
  std::int64_t room() const { return room_; }
  const MemoryReport& report() const { return report_; }

 private:
  std::int64_t bytes_, room_;
  Tag tag_;
  MemoryReport report_;
};

// A pool of device memory for one rank. Thread safe; outlived by its buffers safely (they keep the pool
// alive).
class Memory {
 public:
  virtual ~Memory() = default;
  // Never null; a zero-byte request gives a valid empty buffer. Alignment 64 bytes. `home` orders the
  // release.
  virtual std::shared_ptr<Buffer> allocate(std::int64_t bytes, Tag tag, Stream& home) = 0;
  virtual MemoryReport report() const = 0;
  // Starts new high-water marks from what is in use now.
  virtual void reset_peaks() = 0;
};

std::shared_ptr<Memory> make_cpu_memory(MemoryOptions options = {});
// Counts, and gives buffers of DeviceKind::none: copies into them go nowhere, copies out of them give zeros,
// and nothing else may touch them. For dry runs of any size.
std::shared_ptr<Memory> make_counting_memory();

}  // namespace fivefold
