// The exchange of heads for rows, and the local op between two of them.
#include "parallel/context/ulysses.h"

#include <numeric>

namespace fivefold {

namespace {

// Moves between rows [T, H, W] of one rank and its share of heads for all rows, [cp T, n, W].
class HeadExchange {
 public:
  HeadExchange(const Run& run, Communicator& cp, std::int64_t rows)
      : run_(run), cp_(cp), rows_(rows), counts_(static_cast<std::size_t>(cp.size()), rows) {}

  // Starts the move of rows of heads: n of them, or of their repeats, for each rank.
  Tensor start(const Tensor& rows, std::int64_t n) {
    const auto parts = run_.empty({cp_.size(), rows_, n, rows.dim(2)}, rows.dtype(), Tag::communication);
    run_(HeadsToParts{.rows = rows, .parts = parts});
    return moved(parts.view({cp_.size() * rows_, n, rows.dim(2)}));
  }
  // Starts the move back; `heads` puts what arrived together.
  Tensor start_back(const Tensor& shares) { return moved(shares); }
  Tensor heads(const Tensor& arrived, std::int64_t count) const {
    const auto n = arrived.dim(1), width = arrived.dim(2);
    auto rows = run_.activation({rows_, count, width});
    run_(PartsToHeads{.parts = arrived.view({cp_.size(), rows_, n, width}), .rows = rows});
    return rows;
  }
  // Starts to collect an index of all rows.
  Tensor start_index(const Tensor& index) {
    auto all = run_.empty({cp_.size() * rows_}, index.dtype(), Tag::communication);
    works_.push_back(cp_.all_gather(all, index, run_.stream));
    return all;
  }
  void wait() { wait_all(works_, run_); }

 private:
  // The r-th T rows go to rank r, and come from it.
  Tensor moved(const Tensor& rows) {
    auto arrived = run_.empty(rows.shape(), rows.dtype(), Tag::communication);
    works_.push_back(cp_.all_to_all(arrived, counts_, rows, counts_, run_.stream));
    return arrived;
  }

  const Run& run_;
  Communicator& cp_;
  std::int64_t rows_;
  std::vector<std::int64_t> counts_;
  std::vector<Work> works_;
};

}  // namespace

std::int64_t ulysses_kv_heads(std::int64_t kv_heads, int cp) {
  return std::lcm(kv_heads, std::int64_t{cp}) / cp;
}

Tensor ulysses_forward(const Run& run, Communicator& cp, double scale, AttentionState& state) {
  const auto heads = state.q.dim(1), kv_heads = ulysses_kv_heads(state.k.dim(1), cp.size());
  FF_CHECK_EQ(heads % cp.size(), 0, heads, " heads on ", cp.size(), " context ranks");
  HeadExchange exchange(run, cp, state.q.dim(0));
  {
    Group group(cp);
    state.q = exchange.start(state.q, heads / cp.size());
    state.k = exchange.start(state.k, kv_heads);
    state.v = exchange.start(state.v, kv_heads);
    for (auto* index : {&state.rows.q_index, &state.rows.first_visible, &state.rows.k_index})
      *index = exchange.start_index(*index);
  }
  exchange.wait();
  // Rows of all ranks with a share of the heads: right as a sum over the ranks.
  state.rows.visible_pairs *= cp.size();
  attend(run, scale, run.dtype, state);
  const auto arrived = exchange.start_back(state.out);
  exchange.wait();
  return exchange.heads(arrived, heads);
}

AttentionGradients ulysses_backward(const Run& run, Communicator& cp, double scale, std::int64_t kv_heads,
                                    const Tensor& d_out, const AttentionState& state) {
  HeadExchange exchange(run, cp, d_out.dim(0));
  const auto d_share = exchange.start(d_out, state.q.dim(1));
  exchange.wait();
  const bool repeated = state.k.dim(1) * cp.size() != kv_heads;  // then a head's gradient is a sum over ranks
  auto d = attend_backward(run, scale, {run.dtype, repeated ? run.accum() : run.dtype}, d_share, state);
  {
    Group group(cp);
    for (auto* t : {&d.q, &d.k, &d.v}) *t = exchange.start_back(*t);
  }
  exchange.wait();
  return {exchange.heads(d.q, d_out.dim(1)), exchange.heads(d.k, kv_heads), exchange.heads(d.v, kv_heads)};
}

}  // namespace fivefold
