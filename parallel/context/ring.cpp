// One loop over the plan, forward and backward, and the two kinds of things that travel meanwhile.
#include "parallel/context/ring.h"

namespace fivefold {

namespace {

using Tensors = std::vector<Tensor>;

// Sends `out` and receives as many tensors of the same shapes into `in`, in one launch.
std::vector<Work> exchange(const Run& run, Communicator& cp, const Tensors& out, int to, Tensors& in,
                           int from) {
  std::vector<Work> works;
  in.clear();
  Group group(cp);
  for (const auto& t : out) {
    in.push_back(run.empty(t.shape(), t.dtype(), Tag::communication));
    works.push_back(cp.send(t, to, run.stream));
    works.push_back(cp.recv(in.back(), from, run.stream));
  }
  return works;
}

// Hands out the keys {k, v, k_index} of one step after another; those of the next travel meanwhile.
class TravellingKeys {
 public:
  TravellingKeys(const Run& run, Communicator& cp, std::span<const RingStep> plan, const AttentionState& own)
      : run_(run), cp_(cp), plan_(plan), own_{own.k, own.v, own.rows.k_index} {}

  // Called for step 0, 1, ... in order. `state` gets the step's keys.
  void meet(std::size_t step, AttentionState& state) {
    wait_all(works_, run_);
    here_ = step == 0 ? own_ : std::move(coming_);
    if (step + 1 < plan_.size()) {
      const auto& next = plan_[step + 1];
      works_ = exchange(run_, cp_, next.source == 0 ? own_ : here_, next.keys_to, coming_, next.keys_from);
    }
    state.k = here_[0], state.v = here_[1], state.rows.k_index = here_[2];
  }

 private:
  const Run& run_;
  Communicator& cp_;
  std::span<const RingStep> plan_;
  Tensors own_, here_, coming_;
  std::vector<Work> works_;
};

void add(const Run& run, const Tensors& to, const Tensors& more) {
  for (std::size_t i = 0; i < to.size(); ++i) run(Add{.a = to[i], .b = more[i], .out = to[i]});
}

// Sums of dk and dv on their way from the ranks that meet a rank's keys to that rank.
class TravellingGradients {
 public:
  TravellingGradients(const Run& run, Communicator& cp) : run_(run), cp_(cp) {}

  // `sums` are this rank's gradients for the keys of `step`.
  void pass(const RingStep& step, const Tensors& sums) {
    settle(sums);
    if (step.gradients_to < 0) {
      home_ = sums;
      return;
    }
    works_ = exchange(run_, cp_, sums, step.gradients_to, coming_, step.gradients_from);
    to_home_ = step.gradients_home;
  }
  // The sums of all ranks for the own keys.
  const Tensors& home() {
    settle(home_);
    return home_;
  }

 private:
  // Adds what the step before brought to where it belongs.
  void settle(const Tensors& sums) {
    if (works_.empty()) return;
    wait_all(works_, run_);
    add(run_, to_home_ ? home_ : sums, coming_);
  }

  const Run& run_;
  Communicator& cp_;
  Tensors home_, coming_;
  std::vector<Work> works_;
  bool to_home_ = false;
};

// What one step computes with; all steps together see all pairs.
AttentionState step_state(const AttentionState& whole, std::span<const RingStep> plan) {
  auto step = whole;
  step.rows.visible_pairs /= static_cast<double>(plan.size());
  return step;
}

}  // namespace

void ring_forward(const Run& run, Communicator& cp, std::span<const RingStep> plan, double scale,
                  AttentionState& state) {
  TravellingKeys keys(run, cp, plan, state);
  auto step = step_state(state, plan);
  for (std::size_t s = 0; s < plan.size(); ++s) {
    keys.meet(s, step);
    attend(run, scale, run.accum(), step);
    if (s == 0)
      state.out = step.out, state.lse = step.lse;
    else
      run(AttentionMerge{.out = state.out, .lse = state.lse, .other_out = step.out, .other_lse = step.lse});
  }
  state.out = rounded(run, state.out);
}

AttentionGradients ring_backward(const Run& run, Communicator& cp, std::span<const RingStep> plan,
                                 double scale, const Tensor& d_out, const AttentionState& state) {
  TravellingKeys keys(run, cp, plan, state);
  TravellingGradients travelling(run, cp);
  auto step = step_state(state, plan);
  Tensor dq;
  for (std::size_t s = 0; s < plan.size(); ++s) {
    keys.meet(s, step);
    const auto d = attend_backward(run, scale, {run.accum(), run.accum()}, d_out, step);
    if (s == 0)
      dq = d.q;
    else
      add(run, {dq}, {d.q});
    travelling.pass(plan[s], {d.k, d.v});
  }
  const auto& home = travelling.home();
  return {rounded(run, dq), rounded(run, home[0]), rounded(run, home[1])};
}

}  // namespace fivefold
