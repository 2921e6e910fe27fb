// Configuration -> ranks -> trainer.
#include "launcher/train_command.h"

#include <cstdio>

#include "launcher/command_line.h"
#include "launcher/explain.h"
#include "launcher/memory_advice.h"
#include "launcher/supported.h"
#include "launcher/trainer.h"

namespace fivefold {

namespace {
constexpr const char* kUsage =
    "usage: fivefold train --config FILE [--section.key=value ...]\n"
    "       mpirun -np N fivefold train ...    N processes\n"
    "       fivefold train --ranks N ...       N ranks as threads of one process";
}

int train_command(std::span<const std::string> args) {
  const std::vector<ArgumentSpec> own{explain_option()};
  const auto line = parse_command_line(args, own);
  if (line.own.has("--help")) {
    std::fputs(command_help(kUsage, own, line).c_str(), stdout);
    return 0;
  }
  if (line.settings.empty())
    throw UserError("train needs a configuration: --config FILE, or --section.key=value settings");
  const auto resolved = resolve(line.settings);
  const auto world = world_options(resolved.config, line.ranks());
  check(resolved.config, world_size(world, read_launch_environment()));
  check_supported(resolved.config);
  check_training(resolved.config);
  const StopSignals signals;
  return run_world(world, [&](RankContext& context) {
    if (line.own.has(kExplainOption) && context.world_rank() == 0)
      std::fputs(explain_gradients(resolved.config, context.world_size()).c_str(), stdout);
    return with_memory_advice(resolved.config, context.world_size(),
                              [&] { return Trainer(resolved, context, signals).run(); });
  });
}

}  // namespace fivefold
