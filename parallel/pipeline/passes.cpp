// Lists in, lists out.
#include "parallel/pipeline/passes.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "parallel/pipeline/replay.h"

namespace fivefold {

namespace {

// A compute action when it begins, or a transfer when its product is made. At one moment transfers come
// first, since what begins then may wait for them.
struct Moment {
  double time = 0;
  bool computes = false;
  int rank = 0;  // that computes, or sends
  Action action;
  auto key() const { return std::tie(time, computes, rank, action); }
};

// The transfer that follows a compute action, from the sender's side.
std::optional<Action> send_of(const Action& action, const StageMap& map) {
  const auto product = product_of(action);
  if (!product) return std::nullopt;
  const int to = taker_of(*product, map);
  if (to < 0 || to == maker_of(*product, map)) return std::nullopt;
  return Action{product->gradient ? Act::send_gradient : Act::send_activation, action.stage,
                action.micro_batch};
}

Action receive_of(const Action& send) {
  if (send.act == Act::send_activation) return {Act::receive_activation, send.stage + 1, send.micro_batch};
  return {Act::receive_gradient, send.stage - 1, send.micro_batch};
}

std::vector<Moment> moments_of(const Simulation& simulation, const StageMap& map) {
  std::vector<Moment> out;
  for (int rank = 0; rank < map.ranks; ++rank)
    for (const auto& [action, begin, end] : simulation.timeline[rank]) {
      out.push_back({begin, true, rank, action});
      if (const auto send = send_of(action, map)) out.push_back({end, false, rank, *send});
    }
  std::sort(out.begin(), out.end(), [](const Moment& a, const Moment& b) { return a.key() < b.key(); });
  return out;
}

std::set<Action> actions_of(const Schedule& schedule, Act act) {
  std::set<Action> out;
  for (const auto& list : schedule.lists)
    for (const auto& action : list)
      if (action.act == act) out.insert(action);
  return out;
}

bool trains(const Schedule& schedule) {
  return !actions_of(schedule, Act::backward).empty() || !actions_of(schedule, Act::backward_weight).empty();
}

// Copies the lists, with what `before` and `after` say around each action.
template <class Before, class After>
Schedule surrounded(const Schedule& schedule, Before before, After after) {
  auto out = schedule;
  for (std::size_t rank = 0; rank < out.lists.size(); ++rank) {
    auto& list = out.lists[rank];
    list.clear();
    for (const auto& action : schedule.lists[rank]) {
      if (const std::optional<Action> extra = before(action)) list.push_back(*extra);
      list.push_back(action);
      if (const std::optional<Action> extra = after(action)) list.push_back(*extra);
    }
  }
  return out;
}

void append_tied(Schedule& schedule) {
  const int last = schedule.map.stages() - 1;
  for (const auto act : {Act::exchange_tied, Act::reduce_grads})
    for (const int stage : {0, last})
      schedule.lists[schedule.map.rank_of[stage]].push_back({act, stage, kWholeStep});
}

}  // namespace

Schedule add_transfers(const Schedule& schedule, const PipelineCosts& costs) {
  for (const auto& list : schedule.lists)
    for (const auto& action : list)
      FF_CHECK(is_compute(action.act), "transfers are added to compute actions, not to ", to_text(action));
  auto out = schedule;
  for (auto& list : out.lists) list.clear();
  for (const auto& moment : moments_of(simulate(schedule, costs), schedule.map)) {
    out.lists[moment.rank].push_back(moment.action);
    if (moment.computes) continue;
    const auto receive = receive_of(moment.action);
    out.lists[out.map.rank_of[receive.stage]].push_back(receive);
  }
  return out;
}

Schedule add_reductions(const Schedule& schedule, const Reductions& reductions) {
  const int last_stage = schedule.map.stages() - 1;
  const bool tied = reductions.tied && last_stage > 0;
  // A whole backward's gradient is sent first: others wait for it.
  const auto sends = actions_of(schedule, Act::send_gradient), wholes = actions_of(schedule, Act::backward);
  const auto completes = [&](const Action& a) {
    if (a.act == Act::backward) return !sends.contains({Act::send_gradient, a.stage, a.micro_batch});
    if (a.act == Act::send_gradient) return wholes.contains({Act::backward, a.stage, a.micro_batch});
    return a.act == Act::backward_weight;
  };
  const auto reduce = [&](const Action& action) -> std::optional<Action> {
    if (!completes(action)) return std::nullopt;
    const auto [act, stage, m] = action;
    if (reductions.each_micro_batch) return Action{Act::reduce_grads, stage, m};
    const bool waits = tied && (stage == 0 || stage == last_stage);
    if (waits || m + 1 < schedule.micro_batches) return std::nullopt;
    return Action{Act::reduce_grads, stage, kWholeStep};
  };
  auto out = surrounded(
      schedule, [](const Action&) { return std::optional<Action>(); }, reduce);
  if (tied) append_tied(out);
  return out;
}

Schedule add_unshards(const Schedule& schedule, bool each_use) {
  const auto uses = [](const Action& a) { return is_compute(a.act) && a.act != Act::backward_weight; };
  const auto where = [&](const Action& a) { return each_use ? a.micro_batch : kWholeStep; };
  const bool evaluates = !trains(schedule);
  const auto before = [&](const Action& a) -> std::optional<Action> {
    const bool first = a.act == Act::forward && a.micro_batch == 0;
    if (!uses(a) || (!each_use && !first)) return std::nullopt;
    return Action{Act::unshard, a.stage, where(a)};
  };
  const auto after = [&](const Action& a) -> std::optional<Action> {
    const bool last = (evaluates || a.act != Act::forward) && a.micro_batch + 1 == schedule.micro_batches;
    if (!uses(a) || (!each_use && !last)) return std::nullopt;
    return Action{Act::reshard, a.stage, where(a)};
  };
  return surrounded(schedule, before, after);
}

Schedule forwards_of(const Schedule& schedule) {
  auto out = schedule;
  for (auto& list : out.lists)
    std::erase_if(list, [](const Action& action) { return action.act != Act::forward; });
  return out;
}

Schedule training_schedule(const ScheduleSpec& spec) {
  const auto compute = make_schedule(spec.kind, spec.ranks, spec.chunks, spec.micro_batches);
  auto out = add_reductions(add_transfers(compute, spec.costs), spec.reductions);
  validate(out);
  replay(out);
  return out;
}

Schedule evaluation_schedule(const ScheduleSpec& spec) {
  auto out = add_transfers(forwards_of(make_schedule(spec.kind, spec.ranks, spec.chunks, spec.micro_batches)),
                           spec.costs);
  validate(out);
  replay(out);
  return out;
}

}  // namespace fivefold
