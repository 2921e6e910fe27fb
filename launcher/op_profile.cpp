// The decorator is generated from the op list like any backend.
#include "launcher/op_profile.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace fivefold {

namespace {

using Clock = std::chrono::steady_clock;

template <class Op>
std::string label(const Op&) {
  return std::string(Op::kName);
}

std::string label(const Gemm& op) {
  return str(Gemm::kName, ' ', op.m(), " x ", op.n(), " x ", op.k(), ' ', op.transpose_a ? 't' : 'n',
             op.transpose_b ? 't' : 'n');
}

class ProfilingBackend final : public Implements<ProfilingBackend, Backend, AllOps> {
 public:
  ProfilingBackend(std::unique_ptr<Backend> inner, OpProfile& profile)
      : inner_(std::move(inner)), profile_(profile) {}
  DeviceKind device() const override { return inner_->device(); }

  template <class Op>
  void execute(const Op& op, Stream& stream) {
    stream.synchronize();
    const auto start = Clock::now();
    inner_->run(op, stream);
    stream.synchronize();
    const std::chrono::duration<double> took = Clock::now() - start;
    auto& entry = profile_[label(op)];
    ++entry.calls;
    entry.seconds += took.count();
    entry.flops += op.flops();
    entry.bytes += op.bytes();
  }

 private:
  std::unique_ptr<Backend> inner_;
  OpProfile& profile_;
};

std::string line(const std::string& name, double calls, double seconds, double share, double gflops,
                 double gbytes) {
  char text[160];
  std::snprintf(text, sizeof text, "%-34s %8.1f %10.3f %7.1f %10.1f %10.1f\n", name.c_str(), calls,
                seconds * 1e3, share * 100, gflops, gbytes);
  return text;
}

}  // namespace

std::unique_ptr<Backend> make_profiling_backend(std::unique_ptr<Backend> inner, OpProfile& profile) {
  return std::make_unique<ProfilingBackend>(std::move(inner), profile);
}

std::string to_text(const OpProfile& profile, std::int64_t steps, double step_seconds) {
  std::vector<std::pair<std::string, OpTime>> order(profile.begin(), profile.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  char head[160];
  std::snprintf(head, sizeof head, "%-34s %8s %10s %7s %10s %10s\n", "op, in one step", "calls", "ms", "%",
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
