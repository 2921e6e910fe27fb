// Every step that is possible stays possible until it is taken, so trying the ranks round and round finds a
// way if there is one.
#include "parallel/pipeline/replay.h"

#include "parallel/pipeline/picture.h"

namespace fivefold {

namespace {

class Replay {
 public:
  explicit Replay(const Schedule& schedule)
      : schedule_(schedule),
        map_(schedule.map),
        made_(map_.stages(), schedule.micro_batches, false),
        received_(map_.stages(), schedule.micro_batches, false),
        at_(schedule.lists.size(), 0) {}

  void run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (int rank = 0; rank < map_.ranks; ++rank)
        while (step(rank)) progress = true;
    }
    for (int rank = 0; rank < map_.ranks; ++rank)
      if (next(rank)) throw Error(stuck());
  }

 private:
  const Action* next(int rank) const {
    const auto& list = schedule_.lists[rank];
    return at_[rank] < list.size() ? &list[at_[rank]] : nullptr;
  }

  bool there(int rank, const std::optional<Product>& input) {
    return !input || (maker_of(*input, map_) == rank ? made_ : received_)[*input];
  }

  bool compute(int rank, const Action& action) {
    const auto inputs = inputs_of(action, map_.stages());
    if (!there(rank, inputs.first) || !there(rank, inputs.second)) return false;
    if (const auto product = product_of(action)) made_[*product] = true;
    return true;
  }

  // The receive that meets a send, and the other end's part of an exchange.
  Action partner_of(const Action& action) const {
    switch (action.act) {
      case Act::send_activation:
        return {Act::receive_activation, action.stage + 1, action.micro_batch};
      case Act::send_gradient:
        return {Act::receive_gradient, action.stage - 1, action.micro_batch};
      case Act::receive_activation:
        return {Act::send_activation, action.stage - 1, action.micro_batch};
      case Act::receive_gradient:
        return {Act::send_gradient, action.stage + 1, action.micro_batch};
      default:
        return {action.act, map_.stages() - 1 - action.stage, action.micro_batch};
    }
  }

  // A meeting moves both ranks; the receiving end leaves it to the sender.
  bool meet(int rank, const Action& action) {
    const auto partner = partner_of(action);
    const int peer = map_.rank_of[partner.stage];
    if (action.act == Act::exchange_tied && peer == rank) return ++at_[rank], true;
    const auto* waiting = next(peer);
    if (is_receive(action.act) || !waiting || *waiting != partner) return false;
    if (is_send(action.act)) {
      if (!made_[carried_by(action)]) return false;
      received_[carried_by(action)] = true;
    }
    ++at_[rank];
    ++at_[peer];
    return true;
  }

  bool step(int rank) {
    const auto* action = next(rank);
    if (!action) return false;
    if (is_transfer(action->act) || action->act == Act::exchange_tied) return meet(rank, *action);
    if (is_compute(action->act) && !compute(rank, *action)) return false;
    ++at_[rank];
    return true;
  }

  static std::string name_of(const Product& p) {
    return str(p.gradient ? "the gradient" : "the output", " of stage ", p.stage, ", micro-batch ",
               p.micro_batch);
  }

  std::string wait_of(int rank, const Action& action) {
    if (is_send(action.act) && !made_[carried_by(action)]) return name_of(carried_by(action));
    if (!is_compute(action.act)) {
      const auto partner = partner_of(action);
      return str(to_text(partner), " of rank ", map_.rank_of[partner.stage]);
    }
    const auto inputs = inputs_of(action, map_.stages());
    const bool first = !there(rank, inputs.first), second = !there(rank, inputs.second);
    return str(first ? name_of(*inputs.first) : "", first && second ? " and " : "",
               second ? name_of(*inputs.second) : "");
  }

  std::string stuck() {
    auto text = str("the schedule deadlocks:\n", progress_text(schedule_, at_));
    for (int rank = 0; rank < map_.ranks; ++rank)
      if (const auto* action = next(rank))
        text += str("\nrank ", rank, " at ", to_text(*action), " waits for ", wait_of(rank, *action));
    return text;
  }

  const Schedule& schedule_;
  const StageMap& map_;
  ProductTable<char> made_, received_;
  std::vector<std::size_t> at_;
};

}  // namespace

void replay(const Schedule& schedule) { Replay(schedule).run(); }

}  // namespace fivefold
