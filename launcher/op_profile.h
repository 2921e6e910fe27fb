// Where a step's time goes: a backend around a backend that times every op by name.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/stream_timer.h"
#include "kernels/backend.h"

namespace fivefold {

struct OpTime {
  std::int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
};

// Sums by op; products and attention also by their sizes, since one name covers very different work.
using OpProfile = std::map<std::string, OpTime>;

// Times ops by the clock of the stream that they run on: on a device nothing waits for an op before stop().
class OpProfiler {
 public:
  // The profiler outlives the result.
  std::unique_ptr<Backend> around(std::unique_ptr<Backend> inner);
  // Ops count from now on.
  void start() { running_ = true; }
  // Waits for those that were queued since and adds them up.
  OpProfile stop();

 private:
  friend class ProfilingBackend;
  struct Run {
    std::string label;
    double flops = 0, bytes = 0;
    StreamTimer::Mark begin = 0, end = 0;
  };
  StreamTimer::Mark mark(Stream& stream);

  bool running_ = false;
  std::unique_ptr<StreamTimer> timer_;
  std::vector<Run> runs_;
};

// One line an op, longest first: calls, milliseconds and share of `step_seconds`, GFLOP/s, GB/s, each for one
// of `steps` steps; then what the step spent outside ops.
std::string to_text(const OpProfile& profile, std::int64_t steps, double step_seconds);

}  // namespace fivefold
