// Times of points in a stream's order, read after the fact: marking a point never makes the host wait.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/stream.h"

namespace fivefold {

class StreamTimer {
 public:
  using Mark = std::size_t;
  virtual ~StreamTimer() = default;
  // The point behind everything queued on `stream` so far, a stream of the timer's device.
  virtual Mark mark(Stream& stream) = 0;
  // Seconds from one mark to another; waits until both are reached.
  virtual double seconds(Mark from, Mark to) = 0;
  // When the mark was reached in steady-clock nanoseconds, as hosts tell the time; waits for it. On a device
  // good to some ten microseconds against the host, and to one among marks that lie within seconds.
  virtual std::int64_t nanoseconds(Mark mark) = 0;
  // Forgets all marks; what they needed serves the next ones.
  virtual void clear() = 0;
};

std::unique_ptr<StreamTimer> make_stream_timer(Device device);

}  // namespace fivefold
