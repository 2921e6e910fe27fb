// A micro-batch of random attention problems, solved by any number of context ranks and put together again.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "parallel/comm/ledger.h"
#include "parallel/context/context_attention.h"

namespace fivefold::test {

struct ContextProblem {
  std::int64_t sequences = 2, sequence = 16;
  std::int64_t heads = 8, kv_heads = 8, head_dim = 5, value_dim = 3;
  std::int64_t window = 0;
  std::vector<std::int64_t> documents{};  // lengths within each sequence; empty: one document
  std::int64_t real_rows = -1;            // rows of each sequence that are no padding; -1: all
  DType dtype = DType::f64;
  bool bf16_operands = false;  // numbers that bf16 holds, whatever the dtype
  // Rows whose d_out is zero, by (sequence, row in it): no targets there.
  std::function<bool(std::int64_t, std::int64_t)> no_gradient{};
  // Rows that see nothing and are seen by nobody.
  std::function<bool(std::int64_t, std::int64_t)> blind{};
};
std::string to_string(const ContextProblem& problem);

// Everything in order of the uncut sequences, without the rows that padding added.
struct ContextSolution {
  std::vector<double> out, dq, dk, dv;  // [sequences * sequence, heads * dim]
  std::int64_t padding_errors = 0;      // elements of rows that padding added which are not exactly 0
  std::vector<std::int64_t> forward_bytes, backward_bytes;  // sent, by rank
  double flops = 0;                                         // of the attention ops, summed over ranks
};

// Solves the problems one after another on `cp` thread ranks; also checks that the launches of all ranks have
// one order.
std::vector<ContextSolution> solve(int cp, CpStrategy strategy, const std::vector<ContextProblem>& problems);
ContextSolution solve(int cp, CpStrategy strategy, const ContextProblem& problem);

// Rows of a padded sequence on this rank: zigzag for ring and gather, contiguous for ulysses. -1: added by
// padding.
std::vector<std::int64_t> context_deal(std::int64_t sequence, int cp, int rank, CpStrategy strategy);

constexpr CpStrategy kCpStrategies[] = {CpStrategy::ring, CpStrategy::gather, CpStrategy::ulysses};

}  // namespace fivefold::test
