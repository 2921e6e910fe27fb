// A step's samples dealt to ranks and micro-batches: every row once, in order, equal shapes everywhere, pairs
// counted right.
#include "launcher/batches.h"

#include <gtest/gtest.h>

#include "tests/support/trajectory.h"

namespace fivefold {
namespace {

using test::Problem;

Problem packed() {
  Problem p;
  p.model = test::small_llama();
  return p;
}

BatchSource source_of(const Problem& p) {
  return [&p](auto first, auto count, auto real) { return test::sample_batch(p, first, real, count); };
}

bool is_padding(const MicroBatch& b, std::size_t row) { return b.first_visible[row] > b.q_index[row]; }

// (token, target, position) of the rows that are no padding.
using Row = std::array<std::int32_t, 3>;
void append_rows(std::vector<Row>& rows, const MicroBatch& b) {
  for (std::size_t i = 0; i < b.tokens.size(); ++i)
    if (!is_padding(b, i)) rows.push_back({b.tokens[i], b.targets[i], b.position[i]});
}

// B79: over all ranks and micro-batches each sample of the step once, in the order of one rank that takes
// them one by one.
TEST(StepBatches, EverySampleOnceInOrder) {
  const auto p = packed();
  std::vector<Row> wanted;
  append_rows(wanted, test::sample_batch(p, 30, 5, 5));
  for (const std::int64_t ranks : {1, 2, 3, 5, 8})
    for (const std::int64_t micro_batch : {1, 2, 4}) {
      std::vector<Row> rows;
      std::int64_t targets = 0;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const BatchPlan plan{
            .global_batch = 5, .micro_batch = micro_batch, .data_rank = rank, .data_ranks = ranks};
        const auto batches = step_batches(source_of(p), plan, 30);
        EXPECT_EQ(static_cast<std::int64_t>(batches.size()), micro_batches_per_step(5, ranks, micro_batch));
        for (const auto& b : batches) {
          EXPECT_EQ(b.rows(), micro_batch * p.sequence);
          append_rows(rows, b);
        }
        targets += valid_targets(batches);
      }
      EXPECT_EQ(rows, wanted) << ranks << " ranks, micro-batch " << micro_batch;
      EXPECT_EQ(targets, test::sample_batch(p, 30, 5, 5).valid_targets);
    }
}

TEST(StepBatches, RowsArePaddedForTensorRanks) {
  const auto p = packed();
  const auto batches = step_batches(source_of(p), {.global_batch = 1, .tp = 5}, 0);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].rows(), 15);
  for (std::size_t i = 12; i < 15; ++i) {
    EXPECT_TRUE(is_padding(batches[0], i));
    EXPECT_EQ(batches[0].targets[i], -1);
  }
}

TEST(StepBatches, WindowHidesWhatIsFurtherBack) {
  const auto p = packed();
  const auto free = step_batches(source_of(p), {.global_batch = 3, .micro_batch = 3}, 0).at(0);
  const auto narrow = step_batches(source_of(p), {.global_batch = 3, .micro_batch = 3, .window = 2}, 0).at(0);
  int hidden = 0;
  for (std::size_t i = 0; i < free.tokens.size(); ++i) {
    EXPECT_EQ(narrow.first_visible[i], std::max(free.first_visible[i], free.q_index[i] - 1));
    hidden += narrow.first_visible[i] != free.first_visible[i];
  }
  EXPECT_GT(hidden, 5);
}

// What a person would count: keys of all context ranks between a row's two bounds.
double counted_pairs(const MicroBatch& queries, const std::vector<MicroBatch>& keys) {
  double pairs = 0;
  for (std::size_t i = 0; i < queries.tokens.size(); ++i)
    for (const auto& k : keys)
      for (std::size_t j = 0; j < k.tokens.size(); ++j)
        pairs += queries.first_visible[i] <= k.k_index[j] && k.k_index[j] <= queries.q_index[i];
  return pairs;
}

TEST(StepBatches, VisiblePairs) {
  const auto p = packed();
  for (const std::int64_t window : {0, 1, 3})
    for (const std::int64_t cp : {1, 2}) {
      std::vector<MicroBatch> ranks;
      for (std::int64_t r = 0; r < cp; ++r)
        ranks.push_back(
            step_batches(
                source_of(p),
                {.global_batch = 2, .micro_batch = 3, .cp_rank = r, .cp = cp, .tp = 2, .window = window}, 0)
                .at(0));
      for (const auto& b : ranks) EXPECT_EQ(visible_pairs(b), counted_pairs(b, ranks)) << window << ' ' << cp;
    }
}

}  // namespace
}  // namespace fivefold
