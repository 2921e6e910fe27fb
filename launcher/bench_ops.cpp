// The same case objects as the tests, at the sizes of real models.
#include "launcher/bench_ops.h"

#include <algorithm>
#include <iomanip>

#include "core/stream_timer.h"
#include "kernels/cases/timing.h"

namespace fivefold {

namespace {

constexpr int kSamples = 7;
constexpr std::int64_t kMaxSets = 16;

// Operations and bytes are shown in units that suit the device.
struct Units {
  std::string_view prefix;
  double per_unit;
};
Units units_of(Device device) {
  return device.kind == DeviceKind::cuda ? Units{"T", 1e-12} : Units{"G", 1e-9};
}

class OpBench {
 public:
  OpBench(const BenchOpsOptions& options, const cases::Machine& machine, std::ostream& out)
      : options_(options),
        machine_(machine),
        out_(out),
        units_(units_of(machine.stream.device())),
        timer_(make_stream_timer(machine.stream.device())) {}

  template <class... Ops>
  void run(OpList<Ops...>) {
    measure_copy();
    (bench<Ops>(), ...);
  }

 private:
  // Median seconds of run(i), i counting up.
  template <class Run>
  double timed(Run run) {
    int i = 0;
    const auto sample = [&](int runs) {
      timer_->clear();
      const auto from = timer_->mark(machine_.stream);
      for (int n = 0; n < runs; ++n) run(i++);
      return timer_->seconds(from, timer_->mark(machine_.stream)) / runs;
    };
    sample(2);  // warm-up
    const double once = std::max(sample(1), 1e-7);
    const int runs = static_cast<int>(std::clamp(options_.seconds / kSamples / once, 1.0, 1000.0));
    std::vector<double> samples{once};  // all there is of a run that takes longer than asked for
    if (once < options_.seconds) samples.assign(kSamples, 0);
    for (auto& s : samples) s = sample(runs);
    std::sort(samples.begin(), samples.end());
    return samples[samples.size() / 2];
  }

  // One half of a block that no cache holds into the other, read and written bytes counted.
  void measure_copy() {
    const std::int64_t bytes = units_.prefix == "T" ? std::int64_t{1} << 31 : std::int64_t{1} << 27;
    const auto block = empty(machine_.memory, {2, bytes}, DType::u8, Tag::workspace, machine_.stream);
    const double time = timed([&](int) { copy_bytes(block.rows(0, 1), block.rows(1, 2), machine_.stream); });
    copy_rate_ = 2 * static_cast<double>(bytes) / time;
    out_ << "copy of " << (bytes >> 20) << " MiB: " << std::setprecision(4) << copy_rate_ * units_.per_unit
         << ' ' << units_.prefix << "B/s read and written\n"
         << std::left << std::setw(20) << "op" << ' ' << std::setw(70) << "parameters" << ' ' << std::setw(5)
         << "dtype" << std::right << std::setw(10) << "ms" << std::setw(9) << units_.prefix << "FLOP/s"
         << std::setw(7) << units_.prefix << "B/s" << std::setw(10) << "% of copy" << '\n';
  }

  template <class Op>
  void bench() {
    if (Op::kName.find(options_.only) == std::string_view::npos) return;
    for (const auto& c : cases::cases<Op>(options_.scale))
      if (options_.dtype.empty() || c.dtype == dtype_from(options_.dtype)) bench_case(c);
  }

  template <class Op>
  void bench_case(const cases::Case<Op>& c) {
    std::vector<Op> sets{cases::bound_for_timing(c, machine_)};
    const auto bytes = std::max<std::int64_t>(cases::operand_bytes(c), 1);
    const auto wanted = std::clamp<std::int64_t>(options_.rotated_bytes / bytes, 1, kMaxSets);
    while (static_cast<std::int64_t>(sets.size()) < wanted)
      sets.push_back(cases::copied_for_timing(sets.front(), c, machine_));
    print(c, sets.front(), timed([&](int i) {
            machine_.backend.run(sets[static_cast<std::size_t>(i) % sets.size()], machine_.stream);
          }));
  }

  template <class Op>
  void print(const cases::Case<Op>& c, const Op& op, double time) {
    out_ << std::left << std::setw(20) << Op::kName << ' ' << std::setw(70) << c.parameters() << ' '
         << std::setw(5) << c.dtype << std::right << std::fixed << std::setprecision(4) << std::setw(10)
         << time * 1e3 << std::setprecision(2) << std::setw(16) << op.flops() / time * units_.per_unit
         << std::setw(10) << op.bytes() / time * units_.per_unit << std::setprecision(1) << std::setw(10)
         << op.bytes() / time / copy_rate_ * 100 << '\n'
         << std::defaultfloat << std::flush;
  }

  const BenchOpsOptions& options_;
  cases::Machine machine_;
  std::ostream& out_;
  Units units_;
  std::unique_ptr<StreamTimer> timer_;
  double copy_rate_ = 0;
};

}  // namespace

void bench_ops(const BenchOpsOptions& options, Backend& backend, Memory& memory, Stream& stream,
               std::ostream& out) {
  OpBench(options, {backend, memory, stream}, out).run(AllOps{});
}

}  // namespace fivefold
