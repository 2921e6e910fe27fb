// The decorator is generated from the op list like any backend.
#include "launcher/op_profile.h"

#include <algorithm>
#include <cstdio>

#include "launcher/op_sizes.h"

namespace fivefold {

class ProfilingBackend final : public Implements<ProfilingBackend, Backend, AllOps> {
 public:
  ProfilingBackend(std::unique_ptr<Backend> inner, OpProfiler& profiler)
      : inner_(std::move(inner)), profiler_(profiler) {}
  DeviceKind device() const override { return inner_->device(); }

  template <class Op>
  void execute(const Op& op, Stream& stream) {
    if (!profiler_.running_) return inner_->run(op, stream);
    const auto sizes = op_sizes(op);
    OpProfiler::Run timed{str(Op::kName, sizes.empty() ? "" : " ", sizes), op.flops(), op.bytes()};
    timed.begin = profiler_.mark(stream);
    inner_->run(op, stream);
    timed.end = profiler_.mark(stream);
    profiler_.runs_.push_back(std::move(timed));
  }

 private:
  std::unique_ptr<Backend> inner_;
  OpProfiler& profiler_;
};

std::unique_ptr<Backend> OpProfiler::around(std::unique_ptr<Backend> inner) {
  return std::make_unique<ProfilingBackend>(std::move(inner), *this);
}

StreamTimer::Mark OpProfiler::mark(Stream& stream) {
  if (!timer_) timer_ = make_stream_timer(stream.device());
  return timer_->mark(stream);
}

OpProfile OpProfiler::stop() {
  running_ = false;
  OpProfile profile;
  for (const auto& run : runs_) {
    auto& entry = profile[run.label];
    ++entry.calls;
    entry.seconds += timer_->seconds(run.begin, run.end);
    entry.flops += run.flops;
    entry.bytes += run.bytes;
  }
  runs_.clear();
  timer_.reset();
  return profile;
}

namespace {

std::string line(const std::string& name, double calls, double seconds, double share, double gflops,
                 double gbytes) {
  char text[200];
  std::snprintf(text, sizeof text, "%-62s %8.1f %10.3f %7.1f %10.1f %10.1f\n", name.c_str(), calls,
                seconds * 1e3, share * 100, gflops, gbytes);
  return text;
}

}  // namespace

std::string to_text(const OpProfile& profile, std::int64_t steps, double step_seconds) {
  std::vector<std::pair<std::string, OpTime>> order(profile.begin(), profile.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  char head[200];
  std::snprintf(head, sizeof head, "%-62s %8s %10s %7s %10s %10s\n", "op, in one step", "calls", "ms", "%",
                "GFLOP/s", "GB/s");
  std::string out = head;
  const auto n = static_cast<double>(steps);
  double outside = step_seconds;
  for (const auto& [name, t] : order) {
    outside -= t.seconds / n;
    out += line(name, static_cast<double>(t.calls) / n, t.seconds / n, t.seconds / n / step_seconds,
                t.flops / t.seconds * 1e-9, t.bytes / t.seconds * 1e-9);
  }
  return out + line("outside ops", 0, outside, outside / step_seconds, 0, 0);
}

}  // namespace fivefold
