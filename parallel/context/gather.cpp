// Collects rows before the local op, and sums gradients after it.
#include "parallel/context/gather.h"

namespace fivefold {

namespace {

Tensor room_for_all(const Run& run, const Communicator& cp, const Tensor& own) {
  auto shape = own.shape();
  shape[0] *= cp.size();
  return run.empty(shape, own.dtype(), Tag::communication);
}

// Each tensor becomes the ranks' rows one after another; one launch.
void collect(const Run& run, Communicator& cp, std::initializer_list<Tensor*> tensors) {
  std::vector<Work> works;
  {
    Group group(cp);
    for (auto* t : tensors) {
      const auto own = std::exchange(*t, room_for_all(run, cp, *t));
      works.push_back(cp.all_gather(*t, own, run.stream));
    }
  }
  wait_all(works, run);
}

// This rank's rows of the sum over the ranks, of each tensor; one launch.
std::vector<Tensor> own_sums(const Run& run, Communicator& cp, const std::vector<Tensor>& parts) {
  std::vector<Tensor> sums;
  std::vector<Work> works;
  {
    Group group(cp);
    for (const auto& part : parts) {
      auto shape = part.shape();
      shape[0] /= cp.size();
      sums.push_back(run.empty(shape, part.dtype(), Tag::communication));
      works.push_back(cp.reduce_scatter(sums.back(), part, run.stream));
    }
  }
  wait_all(works, run);
  return sums;
}

}  // namespace

void gather_forward(const Run& run, Communicator& cp, double scale, AttentionState& state) {
  auto all = state;
  collect(run, cp, {&all.k, &all.v, &all.rows.k_index});
  attend(run, scale, run.dtype, all);
  state.rows.k_index = all.rows.k_index;
  state.out = all.out;
  state.lse = all.lse;
}

AttentionGradients gather_backward(const Run& run, Communicator& cp, double scale, const Tensor& d_out,
                                   const AttentionState& state) {
  auto all = state;
  collect(run, cp, {&all.k, &all.v});
  const auto d = attend_backward(run, scale, {run.dtype, run.accum()}, d_out, all);
  const auto sums = own_sums(run, cp, {d.k, d.v});
  return {d.q, rounded(run, sums[0]), rounded(run, sums[1])};
}

}  // namespace fivefold
