// What ranks that are threads queue on CUDA devices, without CUDA headers: copies between ranks' buffers and
// sums in rank order. A build without CUDA refuses each of them.
#pragma once
#include <span>
#include <vector>

#include "core/stream.h"
#include "parallel/comm/communicator.h"

namespace fivefold {

// Restores the calling thread's current device in the end: what follows makes other devices the current one.
class KeepCurrentDevice {
 public:
  KeepCurrentDevice();
  ~KeepCurrentDevice();
  KeepCurrentDevice(const KeepCurrentDevice&) = delete;
  KeepCurrentDevice& operator=(const KeepCurrentDevice&) = delete;

 private:
  int device_ = 0;
};

struct CopyPart {
  std::byte* to;
  const std::byte* from;  // does not overlap `to`
  std::int64_t bytes;
};

// Queues the copies, in no order among themselves. Both ends lie in memory that the stream's device reaches.
void copy_on_device(std::span<const CopyPart> parts, Stream& stream);

// The addresses of at most kMostDeviceRanks ranks' operands.
constexpr std::size_t kMostDeviceRanks = 128;
struct RankOperands {
  std::vector<std::byte*> out;       // each gets the result; may be one of `in`
  std::vector<const std::byte*> in;  // in rank order
};

// Queues reduce_in_rank_order (rank_sum.h) over `count` elements: the same bits, but for the payload of NaNs.
void reduce_on_device(const RankOperands& operands, DType dtype, std::int64_t count, Reduce op,
                      Stream& stream);

// Lets kernels of `device` use the memory that `data` lies in, on device `home`. Throws Error where the two
// GPUs cannot reach each other.
void give_access(const std::byte* data, int home, int device);

}  // namespace fivefold
