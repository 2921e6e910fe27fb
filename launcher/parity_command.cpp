// Options -> world -> comparison -> table.
#include "launcher/parity_command.h"

#include <cstdio>

#include "launcher/command_line.h"
#include "launcher/engine_options.h"
#include "launcher/parity.h"
#include "launcher/supported.h"
#include "launcher/world.h"

namespace fivefold {

namespace {

constexpr const char* kUsage =
    "usage: fivefold parity --reference DIR [--ranks N] [--parallel.KEY=V ...] [--train.precision=f64] [--train.micro_batch=N]\n"
    "Trains the stored steps under this layout and compares losses, gradient norms, every gradient and every final weight.";

const std::vector<ArgumentSpec>& own_options() {
  static const std::vector<ArgumentSpec> specs{{"--reference", "DIR", "folder of a stored trajectory"}};
  return specs;
}

Config config_for(const CommandLine& line, const Reference& reference, int world) {
  auto settings = line.settings;
  settings.insert(settings.begin(), {"model.from_hf", reference.dir.string(), "--reference"});
  settings.insert(settings.begin(), {"data.sequence", std::to_string(reference.sequence), "--reference"});
  settings.insert(settings.begin(), {"train.global_batch", std::to_string(reference.batch), "--reference"});
  auto config = resolve(settings).config;
  check(config, world);
  check_supported(config);
  return config;
}

int compare(RankContext& context, const Config& config, const Reference& reference) {
  auto options = engine_options(config, context.world_size());
  options.optimizer = reference.optimizer;
  Engine engine(std::move(options), context.transport, context.slots);
  const auto result = compare_with_reference(engine, reference, config.train.micro_batch);
  if (context.world_rank() == 0) std::fputs(to_text(result).c_str(), stdout);
  return std::all_of(result.begin(), result.end(), [](const auto& c) { return c.ok(); }) ? 0 : 1;
}

}  // namespace

int parity_command(std::span<const std::string> args) {
  const auto line = parse_command_line(args, own_options());
  if (line.own.has("--help")) {
    std::fputs(command_help(kUsage, own_options(), line).c_str(), stdout);
    return 0;
  }
  if (!line.own.has("--reference")) throw UserError("parity compares with a stored trajectory: name it with --reference DIR");
  PosixFileSystem fs;
  const auto reference = read_reference(fs, line.own.text("--reference"));
  const WorldOptions world{.ranks = line.ranks()};
  const auto config = config_for(line, reference, world_size(world, read_launch_environment()));
  return run_world(world, [&](RankContext& context) { return compare(context, config, reference); });
}

}  // namespace fivefold
