// One dumb loop over the actions. What stages hand on lies in `here_` until the next stage on this rank or a
// send takes it, or in `arriving_` from its receive on.
#include "parallel/pipeline/executor.h"

#include <deque>
#include <map>

#include "core/copy.h"
#include "core/profiler_range.h"
#include "parallel/pipeline/picture.h"

namespace fivefold {

namespace {

constexpr std::size_t kSendsUnderWay = 2;

// Transfers that one action started.
using Works = std::vector<Work>;

struct Arriving {
  Carried carried;
  Works works;
};

class StepRunner {
 public:
  StepRunner(const Run& run, Communicator& pp, const Schedule& schedule,
             std::span<PipelineStage* const> stages, std::span<const CarriedShape> shapes)
      : run_(run), pp_(pp), map_(schedule.map), list_(schedule.lists[pp.rank()]), shapes_(shapes) {
    const auto own = map_.stages_of(pp.rank());
    FF_CHECK_EQ(stages.size(), own.size(), "stages of pp rank ", pp.rank());
    FF_CHECK_EQ(static_cast<int>(shapes.size()), schedule.micro_batches, "one shape a micro-batch");
    for (std::size_t i = 0; i < own.size(); ++i) stages_[own[i]] = stages[i];
  }

  void run() {
    while (at_ < list_.size()) {
      if (is_transfer(list_[at_].act)) {
        transfer();
      } else {
        perform(list_[at_]);
        ++at_;
      }
    }
    finish_sends(0);
    pp_.ledger().set_position(-1, -1);
    FF_CHECK(here_.empty() && arriving_.empty(), "a product that no action takes");
  }

  std::string where() const {
    return str("pp rank ", pp_.rank(), " stopped at action ", at_, " of ", list_.size(), ": ",
               progress_text(list_, at_));
  }

 private:
  // A send and a receive that stand together between the same two ranks are one launch, so that they pass
  // each other.
  void transfer() {
    const auto peer = [&](const Action& a) {
      return is_send(a.act) ? taker_of(carried_by(a), map_) : maker_of(carried_by(a), map_);
    };
    const auto& first = list_[at_];
    const auto* second = at_ + 1 < list_.size() ? &list_[at_ + 1] : nullptr;
    const bool pair = second && is_transfer(second->act) && is_send(second->act) != is_send(first.act) &&
                      peer(*second) == peer(first);
    {
      const Group group(pp_);
      for (const auto end = at_ + (pair ? 2 : 1); at_ < end; ++at_) perform(list_[at_]);
    }
    finish_sends(kSendsUnderWay);
  }

  void perform(const Action& action) {
    pp_.ledger().set_position(action.stage, action.micro_batch, word_for(action.act));
    const ProfilerRange range(word_for(action.act).data());
    auto& stage = *stages_.at(action.stage);
    const int m = action.micro_batch;
    switch (action.act) {
      case Act::forward:
        return keep(action, stage.forward(m, take_input(action)));
      case Act::backward:
        return keep(action, stage.backward(m, take_input(action)));
      case Act::backward_input:
        return keep(action, stage.backward_input(m, take_input(action)));
      case Act::backward_weight:
        return stage.backward_weight(m);
      case Act::send_activation:
      case Act::send_gradient:
        return send(action);
      case Act::receive_activation:
      case Act::receive_gradient:
        return receive(action);
      case Act::unshard:
        return stage.unshard();
      case Act::reshard:
        return stage.reshard();
      case Act::exchange_tied:
        return exchange(action.stage);
      case Act::reduce_grads:
        return stage.reduce_grads(m);
    }
  }

  // What a forward or backward needs from its neighbour; nothing at the ends.
  Carried take_input(const Action& action) {
    const auto inputs = inputs_of(action, map_.stages());
    const auto& product = action.act == Act::forward ? inputs.first : inputs.second;
    if (!product) return {};
    if (maker_of(*product, map_) == pp_.rank()) return take(here_, *product);
    auto arriving = take(arriving_, *product);
    wait(arriving.works);
    return std::move(arriving.carried);
  }

  template <class T>
  T take(std::map<Product, T>& from, const Product& product) {
    auto node = from.extract(product);
    FF_CHECK(!node.empty(), "it has not been made");
    return std::move(node.mapped());
  }

  void keep(const Action& action, Carried carried) {
    const auto product = *product_of(action);
    const bool wanted = taker_of(product, map_) >= 0;
    FF_CHECK_EQ(static_cast<bool>(carried.rows), wanted, "whether stage ", action.stage,
                " hands something on");
    if (!wanted) return;
    const auto& shape = shapes_[action.micro_batch];
    FF_CHECK_EQ(carried.rows.shape(), shape.rows, "rows of micro-batch ", action.micro_batch);
    FF_CHECK_EQ(carried.rows.dtype(), run_.dtype, "rows of micro-batch ", action.micro_batch);
    FF_CHECK_EQ(static_cast<bool>(carried.side), shape.side.has_value(), "the side tensor");
    if (carried.side) FF_CHECK_EQ(carried.side.shape(), *shape.side, "the side tensor");
    here_.emplace(product, std::move(carried));
  }

  void wait(Works& works) {
    for (auto& work : works) work.wait(run_.stream);
  }
  // Waits for the oldest until `most` are under way.
  void finish_sends(std::size_t most) {
    for (; sends_.size() > most; sends_.pop_front()) wait(sends_.front());
  }

  void send(const Action& action) {
    const auto product = carried_by(action);
    const auto carried = take(here_, product);
    const int to = taker_of(product, map_);
    auto& works = sends_.emplace_back();
    works.push_back(pp_.send(carried.rows, to, run_.stream));
    if (carried.side) works.push_back(pp_.send(carried.side, to, run_.stream));
  }

  void receive(const Action& action) {
    const auto product = carried_by(action);
    const int from = maker_of(product, map_);
    const auto& shape = shapes_[action.micro_batch];
    auto& arriving = arriving_[product];
    auto& [rows, side] = arriving.carried;
    rows = run_.activation(shape.rows);
    if (shape.side) side = run_.empty(*shape.side, run_.accum());
    arriving.works.push_back(pp_.recv(rows, from, run_.stream));
    if (side) arriving.works.push_back(pp_.recv(side, from, run_.stream));
  }

  // Each end gives its use's gradient and takes the other's.
  void exchange(int stage) {
    const int other = map_.stages() - 1 - stage;
    const auto mine = stages_.at(stage)->tied_gradients();
    FF_CHECK(mine.own && mine.other, "stage ", stage, " has no tied gradients");
    const int peer = map_.rank_of[other];
    if (peer == pp_.rank())
      return copy_bytes(mine.other, stages_.at(other)->tied_gradients().own, run_.stream);
    Works works;
    {
      const Group group(pp_);
      works.push_back(pp_.send(mine.own, peer, run_.stream));
      works.push_back(pp_.recv(mine.other, peer, run_.stream));
    }
    wait(works);
  }

  const Run& run_;
  Communicator& pp_;
  const StageMap& map_;
  const ActionList& list_;
  std::span<const CarriedShape> shapes_;
  std::map<int, PipelineStage*> stages_;
  std::size_t at_ = 0;
  std::map<Product, Carried> here_;
  std::map<Product, Arriving> arriving_;
  std::deque<Works> sends_;
};

}  // namespace

void run_pipeline(const Run& run, Communicator& pp, const Schedule& schedule,
                  std::span<PipelineStage* const> stages, std::span<const CarriedShape> shapes) {
  FF_CHECK_EQ(pp.size(), schedule.map.ranks, "ranks of group ", pp.name());
  StepRunner runner(run, pp, schedule, stages, shapes);
  try {
    runner.run();
  } catch (const UserError&) {
    throw;
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(error, runner.where());
  } catch (const std::exception& error) {
    throw Error(str(runner.where(), ": ", error.what()));
  }
}

}  // namespace fivefold
