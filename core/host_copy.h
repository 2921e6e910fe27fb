// Values on their way from a device to the host, so that the host can go on and look at them later.
#pragma once
#include <vector>

#include "core/tensor.h"

namespace fivefold {

// The elements of an f64 tensor at the point of the stream where this was made. The stream of a device
// outlives it.
class HostCopy {
 public:
  HostCopy() = default;  // no values
  // `host`: page-locked for a device's tensor, so that nobody waits here.
  HostCopy(const Tensor& source, Memory& host, Stream& stream);

  // Waits for the device. Row-major.
  std::vector<double> values() const;

 private:
  Tensor copy_;
  Stream* stream_ = nullptr;  // null: the copy was made at once
  Event done_;
};

}  // namespace fivefold
