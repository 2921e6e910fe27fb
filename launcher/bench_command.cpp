// Words and options of the benchmarks; the work is in bench_ops and bench_step.
#include "launcher/bench_command.h"

#include <cstdio>
#include <iostream>

#include "core/cuda.h"
#include "core/nearest.h"
#include "launcher/affinity.h"
#include "launcher/bench_comm_command.h"
#include "launcher/bench_ops.h"
#include "launcher/bench_step.h"
#include "launcher/command_line.h"
#include "launcher/compute_device.h"
#include "launcher/memory_advice.h"
#include "launcher/supported.h"

namespace fivefold {

namespace {

constexpr const char* kUsage =
    "usage: fivefold bench ops [OP] [--device NAME] [--shapes NAME] [--dtype NAME] [--seconds S] [--threads "
    "N]\n"
    "       fivefold bench step --config FILE [--section.key=value ...] [--steps K] [--warmup W] [--profile] "
    "[--ranks N]\n"
    "       fivefold bench comm [OPERATION] [--device NAME] [--min SIZE] [--max SIZE] [--ranks N]\n";

const std::vector<ArgumentSpec>& ops_options() {
  static const std::vector<ArgumentSpec> specs{
      {"--device", "NAME", "cpu (default) or cuda"},
      {"--shapes", "NAME",
       "small: of models that a CPU trains, large: of models of 1 to 8 billion parameters in "
       "bf16 (default: small on the CPU, large on a GPU)"},
      {"--dtype", "NAME", "f32, bf16 or f64 only"},
      {"--seconds", "S", "time a case for so long (default 0.1)"},
      {"--threads", "N", "threads of an op (default: the usable cores)"}};
  return specs;
}

const std::vector<ArgumentSpec>& step_options() {
  static const std::vector<ArgumentSpec> specs{{"--steps", "K", "timed steps (default 20)"},
                                               {"--warmup", "W", "steps before them (default 3)"},
                                               {"--profile", "", "time every op too, by name"}};
  return specs;
}

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

// Several times the caches of any GPU.
constexpr std::int64_t kRotatedBytes = std::int64_t{1} << 29;

Device bench_device(const Arguments& arguments) {
  if (!arguments.has("--device") || arguments.choice("--device", {"cpu", "cuda"}) == "cpu") return {};
  if (cuda_device_count() == 0)
    throw UserError(
        "--device cuda needs a CUDA device, and this process sees none: look at nvidia-smi and "
        "CUDA_VISIBLE_DEVICES, or use --device cpu");
  return {DeviceKind::cuda, 0};
}

cases::Scale bench_scale(const Arguments& arguments, bool on_gpu) {
  if (!arguments.has("--shapes")) return on_gpu ? cases::Scale::large : cases::Scale::bench;
  return arguments.choice("--shapes", {"small", "large"}) == "large" ? cases::Scale::large
                                                                     : cases::Scale::bench;
}

int run_ops(std::span<const std::string> args) {
  const Arguments arguments(args, ops_options());
  if (arguments.has("--help")) {
    print(str(kUsage, "\nEvery op at the sizes of real models, or those whose name contains OP.\n\n",
              help_text(ops_options())));
    return 0;
  }
  if (arguments.words().size() > 1)
    throw UserError(str("bench ops takes one part of an op's name, not also '", arguments.words()[1], "'"));
  const auto device = bench_device(arguments);
  const bool on_gpu = device.kind == DeviceKind::cuda;
  BenchOpsOptions options{.seconds = arguments.number("--seconds", 0.1),
                          .scale = bench_scale(arguments, on_gpu),
                          .rotated_bytes = on_gpu ? kRotatedBytes : 0};
  if (!arguments.words().empty()) options.only = arguments.words().front();
  if (arguments.has("--dtype")) options.dtype = arguments.choice("--dtype", {"f32", "bf16", "f64"});
  const auto machine =
      open_device(device, static_cast<int>(arguments.integer("--threads", 1, usable_cores())), {});
  if (on_gpu) std::cout << cuda_device_name(device.index) << '\n';
  bench_ops(options, *machine.backend, *machine.memory, *machine.stream, std::cout);
  return 0;
}

std::string described(const Config& config, int world) {
  return str(parameter_count(config.model), " parameters, ", world, " ranks (",
             to_string(mesh_shape(config.parallel, world)), "), ", config.train.threads, " threads each, ",
             name_of(config.train.precision), "; a step is ", config.train.global_batch, " sequences of ",
             sequence_length(config), " tokens, ", config.train.micro_batch, " at a time\n");
}

int run_step(std::span<const std::string> args) {
  const auto line = parse_command_line(args, step_options());
  if (line.own.has("--help")) {
    print(command_help(kUsage, step_options(), line));
    return 0;
  }
  if (line.settings.empty())
    throw UserError("bench step needs a model: --config FILE, or settings such as --model.preset=NAME");
  const auto config = resolve(line.settings).config;
  const auto world = world_options(config, line.ranks());
  const int size = world_size(world, read_launch_environment());
  check(config, size);
  check_supported(config);
  const BenchStepOptions options{.steps = line.own.integer("--steps", 1, 20),
                                 .warmup = line.own.integer("--warmup", 0, 3),
                                 .profile = line.own.has("--profile")};
  return run_world(world, [&](RankContext& context) {
    return with_memory_advice(config, size, [&] {
      const auto report = bench_step(config, context, options);
      if (context.world_rank() == 0) print(described(config, size) + to_text(report));
      return 0;
    });
  });
}

}  // namespace

int bench_command(std::span<const std::string> args) {
  if (args.empty()) throw UserError("bench needs a word behind it: ops, step or comm");
  if (args[0] == "--help" || args[0] == "-h") {
    print(str(kUsage, "'fivefold bench WORD --help' tells more.\n"));
    return 0;
  }
  if (args[0] == "ops") return run_ops(args.subspan(1));
  if (args[0] == "step") return run_step(args.subspan(1));
  if (args[0] == "comm") return bench_comm_command(args.subspan(1));
  const std::vector<std::string> known{"ops", "step", "comm"};
  throw UserError(
      str("unknown benchmark '", args[0], "'; the nearest is '", nearest_name(args[0], known), "'"));
}

}  // namespace fivefold
