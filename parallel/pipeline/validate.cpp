// What every schedule keeps to, whoever made it.
#include <algorithm>

#include "parallel/pipeline/schedule.h"

namespace fivefold {

namespace {

// How often, and how far, each act of each stage has come.
class Counts {
 public:
  explicit Counts(int stages) : stages_(stages), next_(enum_names<Act>().size() * stages, 0) {}
  // Micro-batches 0 .. result-1 of `stage` have run `act`.
  int& done(Act act, int stage) { return next_[static_cast<std::size_t>(act) * stages_ + stage]; }

 private:
  int stages_;
  std::vector<int> next_;
};

class Validator {
 public:
  explicit Validator(const Schedule& schedule)
      : schedule_(schedule), map_(schedule.map), counts_(std::max(map_.stages(), 1)) {}

  void run() {
    check_shape();
    for (int rank = 0; rank < map_.ranks; ++rank)
      for (const auto& action : schedule_.lists[rank]) check(rank, action);
    for (int stage = 0; stage < map_.stages(); ++stage) check_complete(stage);
    check_transfers();
  }

 private:
  void check_shape() const {
    FF_CHECK(map_.ranks > 0 && map_.stages() > 0 && schedule_.micro_batches > 0, "an empty schedule");
    FF_CHECK_EQ(static_cast<int>(schedule_.lists.size()), map_.ranks, "one list a rank");
    for (const auto rank : map_.rank_of) FF_CHECK(0 <= rank && rank < map_.ranks, "a stage on rank ", rank);
    for (int rank = 0; rank < map_.ranks; ++rank)
      FF_CHECK(!map_.stages_of(rank).empty(), "rank ", rank, " has no stage");
  }

  void check(int rank, const Action& action) {
    const auto [act, stage, m] = action;
    const auto where = [&] { return str("rank ", rank, " at ", to_text(action)); };
    FF_CHECK(0 <= stage && stage < map_.stages(), where(), ": there are ", map_.stages(), " stages");
    FF_CHECK_EQ(map_.rank_of[stage], rank, where(), ": the stage lives elsewhere");
    if (is_compute(act) || is_transfer(act)) {
      FF_CHECK_EQ(m, counts_.done(act, stage), where(), ": micro-batches ascend, each once");
      FF_CHECK(m < schedule_.micro_batches, where(), ": there are ", schedule_.micro_batches,
               " micro-batches");
      ++counts_.done(act, stage);
    }
    if (is_compute(act)) check_order(action, where());
    if (act == Act::reduce_grads) check_reduction(action, where());
  }

  // Micro-batches whose gradients of weights are there.
  int weights_done(int stage) {
    return counts_.done(Act::backward, stage) + counts_.done(Act::backward_weight, stage);
  }

  void check_order(const Action& action, const std::string& where) {
    const auto [act, stage, m] = action;
    if (act == Act::backward_weight)
      FF_CHECK(m < counts_.done(Act::backward_input, stage), where, ": before its input half");
    if (act == Act::backward || act == Act::backward_input)
      FF_CHECK(m < counts_.done(Act::forward, stage), where, ": before its forward");
    const auto halves = counts_.done(Act::backward_input, stage) + counts_.done(Act::backward_weight, stage);
    FF_CHECK(counts_.done(Act::backward, stage) == 0 || halves == 0, where,
             ": a stage runs backward whole or in halves");
  }

  void check_reduction(const Action& action, const std::string& where) {
    const auto [act, stage, m] = action;
    if (m == kWholeStep) {
      FF_CHECK_EQ(weights_done(stage), schedule_.micro_batches, where, ": gradients are still to come");
    } else {
      FF_CHECK_EQ(m, counts_.done(act, stage)++, where, ": reductions ascend");
      FF_CHECK_EQ(weights_done(stage), m + 1, where, ": its gradients are the last made");
    }
  }

  void check_complete(int stage) {
    const int all = schedule_.micro_batches;
    FF_CHECK_EQ(counts_.done(Act::forward, stage), all, "forwards of stage ", stage);
    bool trains = false;
    for (int s = 0; s < map_.stages(); ++s)
      trains = trains || counts_.done(Act::backward, s) > 0 || counts_.done(Act::backward_input, s) > 0;
    if (!trains) return;
    FF_CHECK_EQ(weights_done(stage), all, "weight gradients of stage ", stage);
    FF_CHECK_EQ(counts_.done(Act::backward, stage) + counts_.done(Act::backward_input, stage), all,
                "backwards of stage ", stage);
  }

  // Sends and receives ascend one by one, so their number says which there are.
  void check_transfers() {
    int found = 0;
    for (int stage = 0; stage < map_.stages(); ++stage)
      for (const auto act :
           {Act::send_activation, Act::receive_activation, Act::send_gradient, Act::receive_gradient})
        found += counts_.done(act, stage);
    if (found == 0) return;
    for (int stage = 0; stage + 1 < map_.stages(); ++stage) {
      const bool crosses = map_.rank_of[stage] != map_.rank_of[stage + 1];
      const int down = crosses ? schedule_.micro_batches : 0;
      const int up = weights_done(stage) > 0 ? down : 0;
      FF_CHECK_EQ(counts_.done(Act::send_activation, stage), down, "activations that stage ", stage,
                  " sends");
      FF_CHECK_EQ(counts_.done(Act::receive_activation, stage + 1), down, "activations that stage ",
                  stage + 1, " receives");
      FF_CHECK_EQ(counts_.done(Act::send_gradient, stage + 1), up, "gradients that stage ", stage + 1,
                  " sends");
      FF_CHECK_EQ(counts_.done(Act::receive_gradient, stage), up, "gradients that stage ", stage,
                  " receives");
    }
    const int last = map_.stages() - 1;
    FF_CHECK_EQ(counts_.done(Act::receive_activation, 0) + counts_.done(Act::send_gradient, 0), 0,
                "transfers before stage 0");
    FF_CHECK_EQ(counts_.done(Act::send_activation, last) + counts_.done(Act::receive_gradient, last), 0,
                "transfers after stage ", last);
  }

  const Schedule& schedule_;
  const StageMap& map_;
  Counts counts_;
};

}  // namespace

void validate(const Schedule& schedule) { Validator(schedule).run(); }

}  // namespace fivefold
