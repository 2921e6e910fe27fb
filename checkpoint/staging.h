// Tensors of a device pass through host memory on their way to and from files, one at a time where the order
// of files allows it.
#pragma once
#include <map>
#include <span>

#include "checkpoint/plan.h"

namespace fivefold {

// The elements in host memory: the tensor's own where it lies there, else a copy.
Tensor fetched(const LocalTensor& tensor);

// Where a load puts the elements of wanted tensors, until each is complete and goes to its device.
class LoadStaging {
 public:
  explicit LoadStaging(std::span<const PieceRead> reads);
  // Host memory for the elements of `wanted`: the tensor itself where it lies there.
  Tensor destination(const LocalTensor& wanted);
  // One of the reads of `wanted` is done.
  void finished(const LocalTensor& wanted);

 private:
  struct Staged {
    Tensor host;
    std::int64_t reads_left = 0;
  };
  std::map<const LocalTensor*, Staged> staged_;  // those of a device
};

}  // namespace fivefold
