// Options -> ranks -> the timed loop of bench_comm.
#include "launcher/bench_comm_command.h"

#include <cstdio>
#include <iostream>

#include "core/cuda.h"
#include "launcher/arguments.h"
#include "launcher/bench_comm.h"
#include "launcher/compute_device.h"
#include "launcher/device_choice.h"
#include "launcher/rank_device.h"
#include "launcher/values.h"

namespace fivefold {

namespace {

constexpr const char* kUsage =
    "usage: fivefold bench comm [OPERATION] [options]          one rank\n"
    "       fivefold bench comm --ranks N ...                  N ranks as threads of one process\n"
    "       mpirun -np N fivefold bench comm ...               N processes\n";

const std::vector<ArgumentSpec>& options() {
  static const std::vector<ArgumentSpec> specs{
      {"--ranks", "N", "ranks as threads of this process"},
      {"--transport", "NAME", "auto (default), thread, mpi or nccl, as parallel.transport"},
      {"--device", "NAME", "where operands lie: auto (default), cpu or cuda"},
      {"--dtype", "NAME", "f32 (default), bf16 or f64"},
      {"--min", "SIZE", "smallest operand (default 1KiB)"},
      {"--max", "SIZE", "largest operand (default 64MiB on the CPU, 1GiB on a GPU)"},
      {"--factor", "F", "from one size to the next (default 4)"},
      {"--iterations", "N", "transfers that are timed together (default 20)"},
      {"--warmup", "N", "transfers before them (default 5)"}};
  return specs;
}

template <class T>
T parsed(const Arguments& arguments, const std::string& name, const Codec<T>& codec,
         const std::string& otherwise) {
  const auto text = arguments.text(name, otherwise);
  if (const auto value = codec.parse(text)) return *value;
  throw UserError(str(name, " takes ", codec.expects, ", not '", text, "'"));
}

BenchCommOptions bench_options(const Arguments& arguments, bool on_gpu) {
  BenchCommOptions bench;
  if (!arguments.words().empty()) bench.only = arguments.words().front();
  if (arguments.has("--dtype")) bench.dtype = dtype_from(arguments.choice("--dtype", {"f32", "bf16", "f64"}));
  bench.least_bytes = parsed(arguments, "--min", size_in_bytes(), "1KiB");
  bench.most_bytes = parsed(arguments, "--max", size_in_bytes(), on_gpu ? "1GiB" : "64MiB");
  bench.factor = arguments.integer("--factor", 2, bench.factor);
  bench.iterations = static_cast<int>(arguments.integer("--iterations", 1, bench.iterations));
  bench.warmup = static_cast<int>(arguments.integer("--warmup", 0, bench.warmup));
  if (bench.least_bytes < 1 || bench.most_bytes < bench.least_bytes)
    throw UserError(str("sizes run from --min to --max, so 1 <= ", bench.least_bytes,
                        " <= ", bench.most_bytes, " must hold; give a larger --max"));
  return bench;
}

}  // namespace

int bench_comm_command(std::span<const std::string> args) {
  const Arguments arguments(args, options());
  if (arguments.has("--help")) {
    std::fputs(str(kUsage, "\nEvery operation over sizes, or those whose name contains OPERATION.\n\n",
                   help_text(options()))
                   .c_str(),
               stdout);
    return 0;
  }
  if (arguments.words().size() > 1)
    throw UserError(
        str("bench comm takes one part of an operation's name, not also '", arguments.words()[1], "'"));
  Config config;
  config.train.precision = DType::f32;
  config.train.device = parsed(arguments, "--device", choice<DeviceChoice>(), "auto");
  config.parallel.transport = parsed(arguments, "--transport", choice<TransportName>(), "auto");
  const auto world = world_options(config, static_cast<int>(arguments.integer("--ranks", 1, 0)));
  return run_world(world, [&](RankContext& context) {
    const auto device = rank_device(config.train, context);
    const bool on_gpu = device.kind == DeviceKind::cuda;
    const auto machine = open_device(device, 1, {});
    if (on_gpu && context.world_rank() == 0) std::cout << cuda_device_name(device.index) << '\n';
    bench_comm(context, bench_options(arguments, on_gpu), *machine.memory, *machine.stream, std::cout);
    return 0;
  });
}

}  // namespace fivefold
