// One line a subcommand.
#include "launcher/commands.h"

#include "launcher/bench_command.h"
#include "launcher/ckpt_command.h"
#include "launcher/data_command.h"
#include "launcher/generate_command.h"
#include "launcher/import_command.h"
#include "launcher/parity_command.h"
#include "launcher/plan_command.h"
#include "launcher/train_command.h"

namespace fivefold {

const std::vector<Command>& commands() {
  static const std::vector<Command> table{
      {"train", "train a model", train_command},
      {"plan", "what a run would do on any number of ranks: memory, traffic, pipeline", plan_command},
      {"parity", "compare this layout with one rank or a stored trajectory", parity_command},
      {"ckpt", "list, verify, compare and prune checkpoints", ckpt_command},
      {"import", "weights of other programs into a checkpoint", import_command},
      {"export", "a checkpoint into files of other programs", export_command},
      {"generate", "continue a text with a trained model", generate_command},
      {"data", "make and look at token files", data_command},
      {"bench", "speed of kernels and of training steps", bench_command},
  };
  return table;
}

}  // namespace fivefold
