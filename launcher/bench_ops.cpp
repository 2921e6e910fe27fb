// The same case objects as the tests, at the sizes of real models.
#include "launcher/bench_ops.h"

#include <chrono>
#include <iomanip>

#include "kernels/cases/cases.h"
#include "kernels/cases/place.h"

namespace fivefold {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds of one run: the best of five rounds of as many runs as fit.
template <class Run>
double timed(double seconds, Run run) {
  constexpr int kRounds = 5;
  run(1);  // warm-up
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    int runs = 0;
    for (; runs == 0 || seconds_since(start) < seconds / kRounds; runs += 4) run(4);
    best = std::min(best, seconds_since(start) / runs);
  }
  return best;
}

template <class Op>
void bench_case(const cases::Case<Op>& c, double seconds, const cases::Machine& machine, std::ostream& out) {
  const cases::Placed<Op> placed(c, cases::initial_values(c), machine, cases::Placing::aligned);
  const double time = timed(seconds, [&](int runs) {
    for (int i = 0; i < runs; ++i) machine.backend.run(placed.op, machine.stream);
    machine.stream.synchronize();
  });
  out << std::left << std::setw(20) << Op::kName << ' ' << std::setw(66) << c.parameters() << ' '
      << std::setw(5) << c.dtype << std::right << std::fixed << std::setprecision(3) << std::setw(10)
      << time * 1e3 << std::setprecision(1) << std::setw(10) << placed.op.flops() / time * 1e-9
      << std::setw(10) << placed.op.bytes() / time * 1e-9 << '\n'
      << std::flush;
}

template <class Op>
void bench_op(const BenchOpsOptions& options, const cases::Machine& machine, std::ostream& out) {
  if (Op::kName.find(options.only) == std::string_view::npos) return;
  for (const auto& c : cases::cases<Op>(cases::Scale::bench))
    if (options.dtype.empty() || c.dtype == dtype_from(options.dtype))
      bench_case(c, options.seconds, machine, out);
}

template <class... Ops>
void bench_all(OpList<Ops...>, const BenchOpsOptions& options, const cases::Machine& machine,
               std::ostream& out) {
  (bench_op<Ops>(options, machine, out), ...);
}

}  // namespace

void bench_ops(const BenchOpsOptions& options, Backend& backend, Memory& memory, Stream& stream,
               std::ostream& out) {
  const cases::Machine machine{backend, memory, stream};
  out << std::left << std::setw(20) << "op" << ' ' << std::setw(66) << "parameters" << ' ' << std::setw(5)
      << "dtype" << std::right << std::setw(10) << "ms" << std::setw(10) << "GFLOP/s" << std::setw(10)
      << "GB/s" << '\n';
  bench_all(AllOps{}, options, machine, out);
}

}  // namespace fivefold
