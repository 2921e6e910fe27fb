// Words and options of the benchmarks; the work is in bench_ops and bench_step.
#include "launcher/bench_command.h"

#include <cstdio>
#include <iostream>

#include "core/nearest.h"
#include "launcher/affinity.h"
#include "launcher/bench_ops.h"
#include "launcher/bench_step.h"
#include "launcher/command_line.h"
#include "launcher/supported.h"

namespace fivefold {

namespace {

constexpr const char* kUsage =
    "usage: fivefold bench ops [OP] [--dtype NAME] [--seconds S] [--threads N]\n"
    "       fivefold bench step --config FILE [--section.key=value ...] [--steps K] [--warmup W] [--profile] "
    "[--ranks N]\n";

const std::vector<ArgumentSpec>& ops_options() {
  static const std::vector<ArgumentSpec> specs{
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

int run_ops(std::span<const std::string> args) {
  const Arguments arguments(args, ops_options());
  if (arguments.has("--help")) {
    print(str(kUsage, "\nEvery op at the sizes of real models, or those whose name contains OP.\n\n",
              help_text(ops_options())));
    return 0;
  }
  if (arguments.words().size() > 1)
    throw UserError(str("bench ops takes one part of an op's name, not also '", arguments.words()[1], "'"));
  BenchOpsOptions options{.seconds = arguments.number("--seconds", 0.1)};
  if (!arguments.words().empty()) options.only = arguments.words().front();
  if (arguments.has("--dtype")) options.dtype = arguments.choice("--dtype", {"f32", "bf16", "f64"});
  const auto memory = make_cpu_memory();
  CpuStream stream;
  const auto backend =
      make_cpu_backend({.threads = static_cast<int>(arguments.integer("--threads", 1, usable_cores()))});
  bench_ops(options, *backend, *memory, stream, std::cout);
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
  const WorldOptions world{.ranks = line.ranks(), .transport = config.parallel.transport};
  const int size = world_size(world, read_launch_environment());
  check(config, size);
  check_supported(config);
  const BenchStepOptions options{.steps = line.own.integer("--steps", 1, 20),
                                 .warmup = line.own.integer("--warmup", 0, 3),
                                 .profile = line.own.has("--profile")};
  return run_world(world, [&](RankContext& context) {
    const auto report = bench_step(config, context, options);
    if (context.world_rank() == 0) print(described(config, size) + to_text(report));
    return 0;
  });
}

}  // namespace

int bench_command(std::span<const std::string> args) {
  if (args.empty()) throw UserError("bench needs a word behind it: ops or step");
  if (args[0] == "--help" || args[0] == "-h") {
    print(str(kUsage, "'fivefold bench WORD --help' tells more.\n"));
    return 0;
  }
  if (args[0] == "ops") return run_ops(args.subspan(1));
  if (args[0] == "step") return run_step(args.subspan(1));
  const std::vector<std::string> known{"ops", "step"};
  throw UserError(
      str("unknown benchmark '", args[0], "'; the nearest is '", nearest_name(args[0], known), "'"));
}

}  // namespace fivefold
