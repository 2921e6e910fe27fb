// Timer of a CUDA device: a pool of events with timing. One more event, recorded on an idle stream of the
// timer's own while the host looks at its clock, ties the device's time to the host's.
#include <chrono>
#include <vector>

#include "core/cuda.h"
#include "core/cuda_check.h"

namespace fivefold {

namespace {

std::int64_t host_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

class CudaTimer final : public StreamTimer {
 public:
  explicit CudaTimer(int device) : device_(device), idle_(make_cuda_stream(device)), base_(new_event()) {
    align();
  }
  ~CudaTimer() override {
    for (auto event : events_) cudaEventDestroy(event);
    cudaEventDestroy(base_);
  }

  Mark mark(Stream& stream) override {
    FF_CHECK(stream.device() == (Device{DeviceKind::cuda, device_}), "a mark on a stream of another device");
    FF_CUDA(cudaSetDevice(device_));
    if (used_ == events_.size()) events_.push_back(new_event());
    FF_CUDA(cudaEventRecord(events_[used_], static_cast<cudaStream_t>(stream.native())));
    return used_++;
  }
  double seconds(Mark from, Mark to) override { return elapsed(reached(from), reached(to)) * 1e-3; }
  std::int64_t nanoseconds(Mark mark) override {
    return base_ns_ + static_cast<std::int64_t>(elapsed(base_, reached(mark)) * 1e6);
  }
  void clear() override {
    used_ = 0;
    align();
  }

 private:
  cudaEvent_t new_event() const {
    cudaEvent_t event = nullptr;
    FF_CUDA(cudaSetDevice(device_));
    FF_CUDA(cudaEventCreate(&event));
    return event;
  }
  // Waits for the event, which lies in the past by then.
  cudaEvent_t reached(Mark mark) {
    FF_CHECK(mark < used_, "mark ", mark, " of ", used_);
    FF_CUDA(cudaEventSynchronize(events_[mark]));
    return events_[mark];
  }
  static double elapsed(cudaEvent_t from, cudaEvent_t to) {
    float milliseconds = 0;
    FF_CUDA(cudaEventElapsedTime(&milliseconds, from, to));
    return static_cast<double>(milliseconds);
  }
  // The device reached the base between two looks at the host's clock: the closest pair of several counts.
  void align() {
    constexpr int kTries = 5;
    auto narrowest = std::chrono::nanoseconds::max().count();
    FF_CUDA(cudaSetDevice(device_));
    for (int i = 0; i < kTries; ++i) {
      const auto before = host_ns();
      FF_CUDA(cudaEventRecord(base_, static_cast<cudaStream_t>(idle_->native())));
      FF_CUDA(cudaEventSynchronize(base_));
      const auto width = host_ns() - before;
      // The last record is the base, so an earlier narrower look only narrows the doubt.
      narrowest = std::min(narrowest, width);
      base_ns_ = before + narrowest / 2;
    }
  }

  int device_;
  std::unique_ptr<Stream> idle_;
  cudaEvent_t base_;
  std::int64_t base_ns_ = 0;
  std::vector<cudaEvent_t> events_;
  std::size_t used_ = 0;
};

}  // namespace

std::unique_ptr<StreamTimer> make_cuda_timer(int device) { return std::make_unique<CudaTimer>(device); }

}  // namespace fivefold
