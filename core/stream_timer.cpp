// The host's timer, and which timer a device has. CPU streams run inline, so a mark is the time of its call.
#include "core/stream_timer.h"

#include <chrono>
#include <vector>

#include "core/cuda.h"

namespace fivefold {

namespace {

class CpuTimer final : public StreamTimer {
 public:
  Mark mark(Stream&) override {
    times_.push_back(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
    return times_.size() - 1;
  }
  double seconds(Mark from, Mark to) override {
    return static_cast<double>(times_.at(to) - times_.at(from)) * 1e-9;
  }
  std::int64_t nanoseconds(Mark mark) override { return times_.at(mark); }
  void clear() override { times_.clear(); }

 private:
  std::vector<std::int64_t> times_;
};

}  // namespace

std::unique_ptr<StreamTimer> make_stream_timer(Device device) {
  if (device.kind == DeviceKind::cuda) return make_cuda_timer(device.index);
  return std::make_unique<CpuTimer>();
}

}  // namespace fivefold
