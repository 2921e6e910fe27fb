// Options -> world -> comparison -> table.
#include "launcher/parity_command.h"

#include <cstdio>

#include "launcher/command_line.h"
#include "launcher/engine_options.h"
#include "launcher/explain.h"
#include "launcher/parity_layout.h"
#include "launcher/supported.h"

namespace fivefold {

namespace {

constexpr std::int64_t kSteps = 3;
constexpr const char* kUsage =
    "usage: fivefold parity --config FILE [--ranks N] [--steps N] [--section.key=value ...]\n"
    "       fivefold parity --reference DIR [--ranks N] [--parallel.KEY=V ...] [--train.precision=f64] "
    "[--train.micro_batch=N]\n"
    "       mpirun -np N fivefold parity ...\n"
    "Trains a few steps under this layout and compares losses, gradient norms, every gradient and every "
    "weight with one rank\n"
    "of this program in the same precision, or with a stored trajectory. Ends with 0 when all are within "
    "tolerance, else 1.";

const std::vector<ArgumentSpec>& own_options() {
  static const std::vector<ArgumentSpec> specs{{"--reference", "DIR", "folder of a stored trajectory"},
                                               {"--steps", "N", "steps to compare with one rank (default 3)"},
                                               explain_option()};
  return specs;
}

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

std::vector<Setting> with_reference(std::vector<Setting> settings, const Reference& reference) {
  settings.insert(settings.begin(), {"model.from_hf", reference.dir.string(), "--reference"});
  settings.insert(settings.begin(), {"data.sequence", std::to_string(reference.sequence), "--reference"});
  settings.insert(settings.begin(), {"train.global_batch", std::to_string(reference.batch), "--reference"});
  return settings;
}

// World rank 0 shows and decides; the code is everybody's.
int compare_layout(RankContext& context, const Config& config, std::int64_t steps) {
  const auto result = compare_with_one_rank(config, context, steps);
  if (context.world_rank() != 0) return 0;
  const auto mesh = mesh_shape(config.parallel, context.world_size());
  print(str(to_string(mesh), " against one rank: ", steps, steps == 1 ? " step of " : " steps of ",
            config.train.global_batch, " sequences of ", sequence_length(config),
            config.data.train.empty() ? " random tokens" : " tokens", ", ", name_of(config.train.precision),
            config.train.precision == DType::bf16
                ? "; errors in units of bf16's own, one rank in bf16 against one in f32\n"
                : "\n",
            to_text(result.comparisons)));
  for (const auto& culprit : result.culprits) print(culprit + "\n");
  print(result.ok() ? "the layout computes what one rank computes\n"
                    : "the layout does NOT compute what one rank computes\n");
  return result.ok() ? 0 : 1;
}

int compare_reference(RankContext& context, const Config& config, const Reference& reference) {
  auto options = engine_options(config, context);
  options.optimizer = reference.optimizer;
  Engine engine(std::move(options), context.transport, context.slots);
  const auto result = compare_with_reference(engine, reference, config.train.micro_batch);
  if (context.world_rank() == 0) print(to_text(result));
  return std::all_of(result.begin(), result.end(), [](const auto& c) { return c.ok(); }) ? 0 : 1;
}

// run_world gives every process its own ranks' code; all must leave with the same.
int agreed(RankContext& context, int code) {
  return std::stoi(context.transport.world().broadcast_bytes(std::to_string(code), 0));
}

}  // namespace

int parity_command(std::span<const std::string> args) {
  const auto line = parse_command_line(args, own_options());
  if (line.own.has("--help")) {
    print(command_help(kUsage, own_options(), line));
    return 0;
  }
  const bool stored = line.own.has("--reference");
  if (!stored && line.settings.empty())
    throw UserError(
        "parity compares a configuration with one rank, --config FILE, or with a stored trajectory, "
        "--reference DIR");
  if (stored && line.own.has("--steps"))
    throw UserError("a stored trajectory has its own steps: leave out --steps");
  PosixFileSystem fs;
  std::optional<Reference> reference;
  if (stored) reference = read_reference(fs, line.own.text("--reference"));
  const auto config = resolve(stored ? with_reference(line.settings, *reference) : line.settings).config;
  const auto world = world_options(config, line.ranks());
  const int ranks = world_size(world, read_launch_environment());
  check(config, ranks);
  check_supported(config);
  if (!stored) check_parity_size(config.model);
  const auto steps = line.own.integer("--steps", 1, kSteps);
  return run_world(world, [&](RankContext& context) {
    if (line.own.has(kExplainOption) && context.world_rank() == 0) print(explain_gradients(config, ranks));
    return agreed(context, stored ? compare_reference(context, config, *reference)
                                  : compare_layout(context, config, steps));
  });
}

}  // namespace fivefold
