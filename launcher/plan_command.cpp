// Options -> configuration -> plan -> text.
#include "launcher/plan_command.h"

#include <cstdio>

#include "launcher/command_line.h"
#include "launcher/explain.h"
#include "launcher/plan.h"
#include "launcher/supported.h"

namespace fivefold {

namespace {

constexpr const char* kUsage =
    "usage: fivefold plan --config FILE [--world N] [--section.key=value ...]\n"
    "What a training run would do on N ranks (default: as many as the degrees multiply to): stages, memory, "
    "FLOPs, bytes on\n"
    "the wire, the pipeline's time. Needs neither MPI nor a device, and starts nothing.";

const std::vector<ArgumentSpec>& own_options() {
  static const std::vector<ArgumentSpec> specs{
      {"--world", "N", "ranks of the run; --ranks is the same"},
      {"--node", "N", "ranks of one machine, for warnings (default 8)"},
      explain_option()};
  return specs;
}

constexpr std::int64_t kLargestWorld = 1'000'000;

int world_of(const CommandLine& line, const ParallelConfig& p) {
  std::int64_t world = 1;
  for (const int degree : {p.pp, std::max(p.replicate, 1), std::max(p.shard, 1), p.cp, p.tp})
    world = std::min(world * degree, 2 * kLargestWorld);
  for (const char* option : {"--ranks", "--world"})
    if (line.own.has(option)) world = line.own.integer(option, 1);
  if (line.own.has("--ranks") && line.own.integer("--ranks", 1) != world)
    throw UserError("--world and --ranks say different numbers of ranks: give one of them");
  if (world > kLargestWorld)
    throw UserError(str("plans are made for up to ", kLargestWorld, " ranks, not for more"));
  return static_cast<int>(world);
}

// A plan is made for machines that this one need not be.
Config for_any_machine(Config config) {
  config.parallel.transport = TransportName::automatic;
  return config;
}

}  // namespace

int plan_command(std::span<const std::string> args) {
  const auto line = parse_command_line(args, own_options());
  if (line.own.has("--help")) {
    std::fputs(command_help(kUsage, own_options(), line).c_str(), stdout);
    return 0;
  }
  if (line.settings.empty())
    throw UserError("plan needs a configuration: --config FILE, or --section.key=value settings");
  const auto config = for_any_machine(resolve(line.settings).config);
  const int world = world_of(line, config.parallel);
  check(config, world);
  check_supported(config);
  if (line.own.has(kExplainOption)) std::fputs(explain_gradients(config, world).c_str(), stdout);
  const PlanOptions options{.node = static_cast<int>(line.own.integer("--node", 1, PlanOptions{}.node))};
  std::fputs(to_text(make_plan(config, world, options), config).c_str(), stdout);
  return 0;
}

}  // namespace fivefold
