// Deals a problem to ranks, runs them and puts the pieces together.
#include "tests/parallel/context_testing.h"

#include <mutex>

#include "core/philox.h"
#include "core/transfer.h"
#include "parallel/comm/launch_order.h"
#include "parallel/comm/thread_world.h"

namespace fivefold::test {

namespace {

using Numbers = std::vector<double>;
using Indices = std::vector<std::int32_t>;

// Runs ops and adds up the FLOPs that attention reports.
class CountingBackend final : public Implements<CountingBackend, Backend, AllOps> {
 public:
  template <class Op>
  void execute(const Op& op, Stream& stream) {
    if constexpr (std::is_same_v<Op, AttentionForward> || std::is_same_v<Op, AttentionBackward>)
      flops_ += op.flops();
    inner_->run(op, stream);
  }
  DeviceKind device() const override { return inner_->device(); }
  double flops() const { return flops_; }

 private:
  std::unique_ptr<Backend> inner_ = make_cpu_backend({.threads = 1});
  double flops_ = 0;
};

// One rank's part of a problem.
class RankProblem {
 public:
  RankProblem(const Run& run, const ContextProblem& p, int cp, int rank, CpStrategy strategy)
      : run_(run), p_(p) {
    const auto deal = context_deal(p.sequence, cp, rank, strategy);
    local_ = static_cast<std::int64_t>(deal.size());
    padded_ = local_ * cp;
    for (std::int64_t b = 0; b < p.sequences; ++b)
      for (std::size_t j = 0; j < deal.size(); ++j)
        add_row(b, deal[j], cp, rank, static_cast<std::int64_t>(j), strategy);
  }

  std::int64_t rows() const { return static_cast<std::int64_t>(global_.size()); }
  const std::vector<std::int64_t>& global() const { return global_; }
  // Numbers of an operand that depend on the uncut row only; rows added by padding hold others.
  Tensor operand(std::uint64_t stream, std::int64_t heads, std::int64_t dim) const {
    Numbers values;
    for (std::size_t row = 0; row < global_.size(); ++row)
      for (std::int64_t i = 0; i < heads * dim; ++i) {
        const bool added = global_[row] < 0;
        const auto element = static_cast<std::uint64_t>(
            (added ? static_cast<std::int64_t>(row) : global_[row]) * heads * dim + i);
        const double value = philox_normal(added ? 12 : 11, stream, element);
        values.push_back(p_.bf16_operands ? static_cast<float>(bf16(static_cast<float>(value))) : value);
      }
    return upload(run_.memory, values, {rows(), heads, dim}, run_.dtype, Tag::activations, run_.stream);
  }
  Tensor d_out() const {
    const auto t = operand(4, p_.heads, p_.value_dim);
    auto values = to_host(t, run_.stream);
    const auto width = static_cast<std::size_t>(p_.heads * p_.value_dim);
    for (std::size_t row = 0; row < global_.size(); ++row)
      if (global_[row] >= 0 && p_.no_gradient &&
          p_.no_gradient(global_[row] / p_.sequence, global_[row] % p_.sequence))
        std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(row * width), width, 0.0);
    write(t, values, run_.stream);
    return t;
  }
  AttentionRows mask() const {
    const auto put = [&](const Indices& values) {
      return upload(run_.memory, values, {rows()}, Tag::data, run_.stream);
    };
    return {.q_index = put(q_index_),
            .first_visible = put(first_visible_),
            .k_index = put(k_index_),
            .sequence = local_,
            .visible_pairs = visible_pairs_};
  }

 private:
  void add_row(std::int64_t b, std::int64_t j, int cp, int rank, std::int64_t at, CpStrategy strategy) {
    const auto index = b * padded_ + place(cp, rank, at, strategy);
    const bool hidden = j >= 0 && p_.blind && p_.blind(b, j);
    const bool inert = j < 0 || hidden || (p_.real_rows >= 0 && j >= p_.real_rows);
    global_.push_back(j < 0 ? -1 : b * p_.sequence + j);
    q_index_.push_back(static_cast<std::int32_t>(index));
    k_index_.push_back(hidden ? -1 : static_cast<std::int32_t>(index));
    const auto seen = inert ? 0 : j - first_of(j) + 1;
    first_visible_.push_back(static_cast<std::int32_t>(index - seen + 1));
    visible_pairs_ += static_cast<double>(seen);
  }
  // Of row j, in the uncut sequence.
  std::int64_t first_of(std::int64_t j) const {
    std::int64_t begin = 0;
    for (const auto length : p_.documents)
      if (begin + length <= j) begin += length;
    return p_.window > 0 ? std::max(begin, j - p_.window + 1) : begin;
  }
  // Index within the padded sequence of the row `at` of this rank.
  std::int64_t place(int cp, int rank, std::int64_t at, CpStrategy strategy) const {
    if (cp == 1 || strategy == CpStrategy::ulysses) return rank * local_ + at;
    const auto half = local_ / 2;
    return at < half ? rank * half + at : padded_ - (rank + 1) * half + (at - half);
  }

  const Run& run_;
  const ContextProblem& p_;
  std::int64_t local_ = 0, padded_ = 0;
  std::vector<std::int64_t> global_;  // row of the uncut micro-batch, -1: added by padding
  Indices q_index_, first_visible_, k_index_;
  double visible_pairs_ = 0;
};

// Rows of one rank into the whole.
void scatter(const Run& run, const Tensor& t, const std::vector<std::int64_t>& global, Numbers& whole,
             std::int64_t& padding_errors) {
  const auto values = to_host(t, run.stream);
  const auto width = static_cast<std::size_t>(t.shape().row_count());
  for (std::size_t row = 0; row < global.size(); ++row)
    for (std::size_t i = 0; i < width; ++i) {
      const double v = values[row * width + i];
      if (global[row] < 0)
        padding_errors += v != 0;
      else
        whole[static_cast<std::size_t>(global[row]) * width + i] = v;
    }
}

std::int64_t sent_bytes(const Run& run) {
  std::int64_t sum = 0;
  for (const auto& [group, totals] : run.mesh.world().ledger().totals()) sum += totals.sent_bytes;
  return sum;
}

void solve_part(const Run& run, const ContextProblem& p, CpStrategy strategy, std::mutex& mutex,
                ContextSolution& solution) {
  const int cp = run.mesh.size(Axis::cp), rank = run.mesh.coordinate(Axis::cp);
  const RankProblem part(run, p, cp, rank, strategy);
  const ContextAttention attention(strategy, 0.4, p.window);
  ContextAttention::Saved saved;
  const auto before = sent_bytes(run);
  const auto out =
      attention.forward(run, part.operand(1, p.heads, p.head_dim), part.operand(2, p.kv_heads, p.head_dim),
                        part.operand(3, p.kv_heads, p.value_dim), part.mask(), saved);
  const auto between = sent_bytes(run);
  const auto d = attention.backward(run, part.d_out(), saved);
  const auto after = sent_bytes(run);
  const std::scoped_lock lock(mutex);
  scatter(run, out, part.global(), solution.out, solution.padding_errors);
  scatter(run, d.q, part.global(), solution.dq, solution.padding_errors);
  scatter(run, d.k, part.global(), solution.dk, solution.padding_errors);
  scatter(run, d.v, part.global(), solution.dv, solution.padding_errors);
  solution.forward_bytes[static_cast<std::size_t>(rank)] = between - before;
  solution.backward_bytes[static_cast<std::size_t>(rank)] = after - between;
}

ContextSolution room_for(const ContextProblem& p, int cp) {
  const auto room = [&](std::int64_t width) {
    return Numbers(static_cast<std::size_t>(p.sequences * p.sequence * width), std::nan(""));
  };
  ContextSolution s;
  s.out = room(p.heads * p.value_dim), s.dq = room(p.heads * p.head_dim);
  s.dk = room(p.kv_heads * p.head_dim), s.dv = room(p.kv_heads * p.value_dim);
  s.forward_bytes.resize(static_cast<std::size_t>(cp)), s.backward_bytes.resize(static_cast<std::size_t>(cp));
  return s;
}

}  // namespace

std::string to_string(const ContextProblem& p) {
  return str(p.sequences, " x ", p.sequence, " rows, heads ", p.heads, '/', p.kv_heads, ", window ", p.window,
             ", ", p.documents.size(), " documents, real rows ", p.real_rows, ", ", p.dtype);
}

std::vector<std::int64_t> context_deal(std::int64_t sequence, int cp, int rank, CpStrategy strategy) {
  const auto padded = cp == 1 ? sequence : round_up(sequence, 2 * cp), local = padded / cp;
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < padded; ++row) {
    // Of 2 cp chunks, rank r has the r-th from either end.
    const auto chunk = cp == 1 ? 0 : row / (local / 2);
    const bool mine =
        cp == 1 ||
        (strategy == CpStrategy::ulysses ? row / local == rank : chunk == rank || chunk == 2 * cp - 1 - rank);
    if (mine) rows.push_back(row < sequence ? row : -1);
  }
  return rows;
}

std::vector<ContextSolution> solve(int cp, CpStrategy strategy, const std::vector<ContextProblem>& problems) {
  std::vector<ContextSolution> solutions;
  for (const auto& p : problems) solutions.push_back(room_for(p, cp));
  std::mutex mutex;
  const auto ledgers =
      run_ranks(cp,
                [&](Transport& transport) {
                  std::vector<HostSlot> slots;
                  for (int r = 0; r < cp; ++r) slots.push_back({"host", r});
                  const DeviceMesh mesh({.cp = cp}, transport, slots, {{{Axis::cp}, "activations"}});
                  const auto memory = make_cpu_memory({.poison = true});
                  CpuStream stream;
                  for (std::size_t i = 0; i < problems.size(); ++i) {
                    CountingBackend backend;
                    solve_part(Run{backend, stream, *memory, mesh, problems[i].dtype}, problems[i], strategy,
                               mutex, solutions[i]);
                    const std::scoped_lock lock(mutex);
                    solutions[i].flops += backend.flops();
                  }
                },
                {.keep_all = true});
  std::vector<std::vector<LedgerRecord>> records;
  for (const auto& ledger : ledgers) records.push_back(ledger->records());
  check_launch_order(records);
  return solutions;
}

ContextSolution solve(int cp, CpStrategy strategy, const ContextProblem& problem) {
  return std::move(solve(cp, strategy, std::vector{problem}).front());
}

}  // namespace fivefold::test
