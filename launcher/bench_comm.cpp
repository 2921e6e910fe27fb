// Operands are made once for each size; a transfer's tensors stay the same from one to the next.
#include "launcher/bench_comm.h"

#include <chrono>
#include <iomanip>

#include "core/copy.h"
#include "core/transfer.h"

namespace fivefold {

namespace {

using Clock = std::chrono::steady_clock;

class Bench {
 public:
  Bench(RankContext& context, const BenchCommOptions& options, Memory& memory, Stream& stream)
      : comm_(context.transport.world()), options_(options), memory_(memory), stream_(stream) {}

  // Seconds of one transfer, as rank 0 tells all.
  double time(const std::string& operation, std::int64_t part) {
    const int n = comm_.size();
    const bool equal = operation == "all_to_all" || operation == "send_recv";
    const auto whole = tensor(n * part), other = tensor(equal ? n * part : part);
    const std::vector<std::int64_t> rows(static_cast<std::size_t>(n), 1);
    const auto by_rank = [n](const Tensor& t) { return t.view({n, t.count() / n}); };
    if (operation == "all_reduce")
      return timed([&] { comm_.all_reduce(whole, Reduce::sum, stream_).wait(stream_); });
    if (operation == "all_gather")
      return timed([&] { comm_.all_gather(whole, other, stream_).wait(stream_); });
    if (operation == "reduce_scatter")
      return timed([&] { comm_.reduce_scatter(other, whole, stream_).wait(stream_); });
    if (operation == "all_to_all")
      return timed(
          [&] { comm_.all_to_all(by_rank(other), rows, by_rank(whole), rows, stream_).wait(stream_); });
    return timed([&] { exchange(whole, other); });
  }

 private:
  Tensor tensor(std::int64_t count) {
    const auto t = empty(memory_, {count}, options_.dtype, Tag::communication, stream_);
    const auto first = std::min<std::int64_t>(count, 1 << 10);
    write(t.slice(0, first), std::vector<double>(static_cast<std::size_t>(first), 0.0), stream_);
    repeat_first(t, first, stream_);
    return t;
  }

  void exchange(const Tensor& out, const Tensor& in) {
    if (comm_.size() == 1) return;
    Work sent, received;
    {
      Group group(comm_);
      sent = comm_.send(in, (comm_.rank() + 1) % comm_.size(), stream_);
      received = comm_.recv(out, (comm_.rank() + comm_.size() - 1) % comm_.size(), stream_);
    }
    sent.wait(stream_);
    received.wait(stream_);
  }

  template <class Transfer>
  double timed(Transfer transfer) {
    for (int i = 0; i < options_.warmup; ++i) transfer();
    stream_.synchronize();
    comm_.barrier();
    const auto start = Clock::now();
    for (int i = 0; i < options_.iterations; ++i) transfer();
    stream_.synchronize();
    const auto seconds = std::chrono::duration<double>(Clock::now() - start).count() / options_.iterations;
    double sum = 0;
    for (const auto& text : comm_.gather_bytes(str(seconds))) sum += std::stod(text);
    return sum / comm_.size();
  }

  Communicator& comm_;
  const BenchCommOptions& options_;
  Memory& memory_;
  Stream& stream_;
};

void print_head(const RankContext& context, const BenchCommOptions& options, std::ostream& out) {
  out << context.world_size() << " ranks, transport " << context.transport.kind() << ", " << options.dtype
      << "; bandwidths by the convention of nccl-tests\n"
      << std::left << std::setw(16) << "operation" << std::right << std::setw(14) << "bytes" << std::setw(12)
      << "us" << std::setw(12) << "alg GB/s" << std::setw(12) << "bus GB/s" << '\n';
}

void print_line(const std::string& operation, std::int64_t bytes, double seconds, int ranks,
                std::ostream& out) {
  const double bandwidth = static_cast<double>(bytes) / seconds * 1e-9;
  out << std::left << std::setw(16) << operation << std::right << std::setw(14) << bytes << std::fixed
      << std::setprecision(1) << std::setw(12) << seconds * 1e6 << std::setprecision(2) << std::setw(12)
      << bandwidth << std::setw(12) << bandwidth * bus_factor(operation, ranks) << '\n'
      << std::flush;
}

}  // namespace

double bus_factor(const std::string& operation, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (operation == "send_recv") return 1;
  return operation == "all_reduce" ? 2 * others : others;
}

void bench_comm(RankContext& context, const BenchCommOptions& options, Memory& memory, Stream& stream,
                std::ostream& out) {
  const bool tells = context.world_rank() == 0;
  const auto unit = context.world_size() * size_of(options.dtype);
  Bench bench(context, options, memory, stream);
  if (tells) print_head(context, options, out);
  for (const std::string operation :
       {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"}) {
    if (operation.find(options.only) == std::string::npos) continue;
    for (auto bytes = options.least_bytes; bytes <= options.most_bytes; bytes *= options.factor) {
      const auto part = std::max<std::int64_t>(bytes / unit, 1);
      const double seconds = bench.time(operation, part);
      if (tells) print_line(operation, part * unit, seconds, context.world_size(), out);
    }
  }
}

}  // namespace fivefold
