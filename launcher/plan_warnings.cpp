// One function a question; each gives a sentence or nothing.
#include "data/micro_batch.h"
#include "launcher/plan.h"
#include "launcher/text_table.h"

namespace fivefold {

namespace {

constexpr double kLongBubble = 0.2;

std::string tp_beyond_a_node(const Plan& plan, const PlanOptions& options) {
  const int tp = plan.mesh.tp;
  if (plan.mesh.world() <= options.node || options.node % tp == 0) return {};
  return str("tp = ", tp, " does not divide the ", options.node, " ranks of a machine (--node), so ",
             tp > options.node ? "all" : "some",
             " tp groups cross machines, several times a block: use a tp that divides ", options.node);
}

std::string padded_sequences(const Plan& plan, const Config& config) {
  const auto sequence = sequence_length(config), padded = padded_sequence(sequence, plan.mesh.cp);
  if (padded == sequence) return {};
  return str("sequences of ", sequence, " tokens are padded to ", padded,
             ", a multiple of 2 cp = ", 2 * plan.mesh.cp, ": ",
             text_of_share(static_cast<double>(padded) / static_cast<double>(sequence) - 1), " more work");
}

std::string empty_sequences(const Plan& plan, const Config& config) {
  const auto places = plan.micro_batches * config.train.micro_batch * plan.mesh.data_ranks();
  const auto empty = places - config.train.global_batch;
  if (empty == 0) return {};
  return str(empty, " of ", places,
             " places for sequences in a step stay empty: global_batch = ", config.train.global_batch,
             " is no multiple of micro_batch x data ranks = ", config.train.micro_batch, " x ",
             plan.mesh.data_ranks());
}

std::string uneven_rounds(const Plan& plan, const Config& config) {
  if (config.parallel.schedule != ScheduleKind::interleaved || plan.micro_batches % plan.mesh.pp == 0)
    return {};
  return str("the interleaved schedule is made for a multiple of pp micro-batches, but there are ",
             plan.micro_batches, " and pp = ", plan.mesh.pp);
}

std::string long_bubble(const Plan& plan) {
  const double bubble = plan.simulation.bubble();
  if (bubble < kLongBubble) return {};
  return str("ranks wait ", text_of_share(bubble),
             " of the time for the pipeline: more micro-batches (there are ", plan.micro_batches,
             "), fewer stages (", plan.pipeline.map.stages(), ") or another schedule or split shorten it");
}

std::string repeated_heads(const Plan& plan, const Config& config) {
  const auto kv = config.model.kv_heads;
  if (plan.mesh.tp <= kv) return {};
  return str("tp = ", plan.mesh.tp, " is more than kv_heads = ", kv,
             ": each k and v head is held and computed by ", plan.mesh.tp / kv, " tp ranks");
}

std::string empty_pieces(const Plan& plan, const Config& config) {
  const auto storage = std::int64_t{plan.mesh.shard} * plan.mesh.cp;
  std::int64_t short_ones = 0, all = 0;
  for (const auto& param : place_parameters(config.model, MeshLayout(plan.mesh), 0)) {
    short_ones += param.compute_box.shape()[0] < storage;
    ++all;
  }
  if (short_ones == 0) return {};
  return str(short_ones, " of ", all, " parameters have fewer rows than shard x cp = ", storage,
             " ranks, so some hold no piece of them: replicate takes ranks without cutting further");
}

std::string often_gathered(const Plan& plan, const Config& config) {
  const auto& p = config.parallel;
  if (p.zero != 3 || p.reshard == Reshard::step || (p.reshard == Reshard::automatic && p.pp > 1) ||
      plan.micro_batches < 2 || plan.mesh.shard * plan.mesh.cp == 1)
    return {};
  return str("ZeRO 3 gathers the weights of every block twice a micro-batch, ", 2 * plan.micro_batches,
             " times a step; reshard = step gathers them once and keeps them");
}

}  // namespace

std::vector<std::string> plan_warnings(const Plan& plan, const Config& config, const PlanOptions& options) {
  std::vector<std::string> out;
  for (auto& sentence :
       {tp_beyond_a_node(plan, options), repeated_heads(plan, config), padded_sequences(plan, config),
        empty_sequences(plan, config), uneven_rounds(plan, config), long_bubble(plan),
        empty_pieces(plan, config), often_gathered(plan, config)})
    if (!sentence.empty()) out.push_back(sentence);
  return out;
}

}  // namespace fivefold
