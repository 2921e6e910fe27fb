// The device part of the thread transport: operands that lie on CUDA devices are copied and added up where
// they are, in stream order, and no host thread waits for it.
#pragma once
#include <map>
#include <mutex>

#include "parallel/comm/thread_transfer.h"

namespace fivefold {

// One stream for each communicator and device. Thread safe; the world that the ranks share owns it.
class DeviceStreams {
 public:
  Stream& stream(const TransferGroup* group, int device);

 private:
  std::mutex mutex_;
  std::map<std::pair<const TransferGroup*, int>, std::unique_ptr<Stream>> streams_;
};

// Queues the work of a transfer whose sides' operands are all on CUDA devices: after every side's `ready`, on
// one stream for each device that takes part. Sums have the bits of host sums (rank_sum.h).
DeviceDone queue_on_devices(const Transfer& transfer, std::span<const TransferSide> sides,
                            DeviceStreams& streams);

}  // namespace fivefold
