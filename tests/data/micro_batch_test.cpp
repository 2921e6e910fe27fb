// Cutting micro-batches for context ranks, padding rows, sliding windows.
#include "data/micro_batch.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/data/data_testing.h"

namespace fivefold {
namespace {

// `sequences` sequences of one document each: tokens count from 1, the last row has no target.
MicroBatch counting_batch(std::int64_t sequences, std::int64_t sequence) {
  MicroBatch batch{.sequences = sequences, .sequence = sequence, .index_end = sequences * sequence};
  for (std::int64_t row = 0; row < sequences * sequence; ++row) {
    const auto j = static_cast<std::int32_t>(row % sequence), index = static_cast<std::int32_t>(row);
    batch.tokens.push_back(index + 1);
    batch.targets.push_back(j + 1 < sequence ? index + 2 : -1);
    batch.position.push_back(j);
    batch.q_index.push_back(index);
    batch.first_visible.push_back(index - j);
    batch.k_index.push_back(index);
    batch.valid_targets += j + 1 < sequence;
  }
  return batch;
}

// B19, B39: targets and positions are those of the whole sequence.
TEST(ContextCut, ZigzagOfEightTokensOnTwoRanks) {
  const auto batch = counting_batch(1, 8);
  const auto first = cut_context(batch, 0, 2, ContextCut::zigzag),
             second = cut_context(batch, 1, 2, ContextCut::zigzag);
  EXPECT_EQ(first.tokens, (Ids{1, 2, 7, 8}));
  EXPECT_EQ(first.targets, (Ids{2, 3, 8, -1}));
  EXPECT_EQ(first.position, (Ids{0, 1, 6, 7}));
  EXPECT_EQ(first.q_index, (Ids{0, 1, 6, 7}));
  EXPECT_EQ(first.k_index, (Ids{0, 1, 6, 7}));
  EXPECT_EQ(first.first_visible, (Ids{0, 0, 0, 0}));
  EXPECT_EQ(first.valid_targets, 3);
  EXPECT_EQ(second.tokens, (Ids{3, 4, 5, 6}));
  EXPECT_EQ(second.targets, (Ids{4, 5, 6, 7}));
  EXPECT_EQ(second.position, (Ids{2, 3, 4, 5}));
  EXPECT_EQ(second.valid_targets, 4);
}

TEST(ContextCut, ContiguousHalves) {
  const auto batch = counting_batch(2, 4);
  EXPECT_EQ(cut_context(batch, 0, 2, ContextCut::contiguous).tokens, (Ids{1, 2, 5, 6}));
  EXPECT_EQ(cut_context(batch, 1, 2, ContextCut::contiguous).tokens, (Ids{3, 4, 7, 8}));
}

TEST(ContextCut, OneRankIsTheIdentity) {
  const auto batch = counting_batch(3, 7);
  EXPECT_EQ(cut_context(batch, 0, 1, ContextCut::zigzag), batch);
  EXPECT_EQ(cut_context(batch, 0, 1, ContextCut::contiguous), batch);
}

// B44: lengths that do not divide are padded; every real row comes once, with the neighbours it could see
// before.
TEST(ContextCut, PadsEveryLengthToTwiceTheRanks) {
  for (const std::int64_t sequence : {1, 2, 3, 5, 7, 8, 10, 13}) {
    for (const std::int64_t cp : {2, 3, 4}) {
      for (const auto cut : {ContextCut::zigzag, ContextCut::contiguous}) {
        const auto batch = counting_batch(2, sequence);
        const std::int64_t padded = padded_sequence(sequence, cp);
        EXPECT_EQ(padded % (2 * cp), 0);
        EXPECT_LT(padded - sequence, 2 * cp);
        std::multiset<std::int32_t> tokens;
        std::set<std::int32_t> indices;
        std::int64_t targets = 0;
        for (std::int64_t rank = 0; rank < cp; ++rank) {
          const auto part = cut_context(batch, rank, cp, cut);
          ASSERT_EQ(part.rows(), 2 * padded / cp);
          EXPECT_EQ(part.k_index, context_rows(2, sequence, rank, cp, cut));
          EXPECT_EQ(part.index_end, 2 * padded);
          targets += part.valid_targets;
          for (std::size_t row = 0; row < part.tokens.size(); ++row) {
            indices.insert(part.q_index[row]);
            const std::int64_t b = part.q_index[row] / padded, j = part.q_index[row] % padded;
            if (j >= sequence) {
              EXPECT_EQ(part.targets[row], -1);
              EXPECT_GT(part.first_visible[row], part.q_index[row]);
              continue;
            }
            tokens.insert(part.tokens[row]);
            EXPECT_EQ(part.tokens[row], b * sequence + j + 1);
            EXPECT_EQ(part.targets[row], j + 1 < sequence ? b * sequence + j + 2 : -1);
            EXPECT_EQ(part.position[row], j);
            EXPECT_EQ(part.first_visible[row], b * padded);  // the padding of sequence b-1 lies before it
          }
        }
        EXPECT_EQ(static_cast<std::int64_t>(tokens.size()), 2 * sequence);
        EXPECT_EQ(static_cast<std::int64_t>(indices.size()), 2 * padded);
        EXPECT_EQ(targets, batch.valid_targets);
      }
    }
  }
}

// B44: seq 7 on 2 ranks becomes 8, seq 3 becomes 4.
TEST(ContextCut, ShortSequencesByHand) {
  const auto seven = counting_batch(1, 7);
  EXPECT_EQ(cut_context(seven, 0, 2, ContextCut::zigzag).tokens, (Ids{1, 2, 7, 0}));
  EXPECT_EQ(cut_context(seven, 0, 2, ContextCut::zigzag).targets, (Ids{2, 3, -1, -1}));
  const auto three = counting_batch(1, 3);
  EXPECT_EQ(cut_context(three, 0, 2, ContextCut::zigzag).tokens, (Ids{1, 0}));
  EXPECT_EQ(cut_context(three, 1, 2, ContextCut::zigzag).tokens, (Ids{2, 3}));
}

TEST(ContextCut, RefusesASecondCut) {
  const auto part = cut_context(counting_batch(1, 8), 0, 2, ContextCut::zigzag);
  EXPECT_THROW(cut_context(part, 0, 2, ContextCut::zigzag), Error);
  EXPECT_THROW(context_rows(1, 8, 2, 2, ContextCut::zigzag), Error);
}

// B44: rows padded for tensor ranks see nothing, have no target, and are seen by no row.
TEST(PadRows, AppendsRowsThatTakePartInNothing) {
  auto batch = cut_context(counting_batch(1, 10), 1, 2, ContextCut::zigzag);
  const auto before = batch;
  pad_rows(batch, 4);
  ASSERT_EQ(batch.rows(), 8);
  EXPECT_EQ(batch.valid_targets, before.valid_targets);
  EXPECT_TRUE(std::equal(before.tokens.begin(), before.tokens.end(), batch.tokens.begin()));
  for (std::size_t row = 6; row < 8; ++row) {
    EXPECT_EQ(batch.targets[row], -1);
    for (std::size_t other = 0; other < 8; ++other) {
      EXPECT_FALSE(batch.first_visible[row] <= batch.k_index[other] &&
                   batch.k_index[other] <= batch.q_index[row]);
      EXPECT_FALSE(batch.first_visible[other] <= batch.k_index[row] &&
                   batch.k_index[row] <= batch.q_index[other]);
    }
  }
  const auto padded = batch;
  pad_rows(batch, 4);
  EXPECT_EQ(batch, padded);
}

TEST(Window, RaisesTheFirstVisibleKey) {
  auto batch = counting_batch(2, 5);
  batch.first_visible[3] = 3;  // a document begins here
  batch.first_visible[4] = 3;
  apply_window(batch, 3);
  EXPECT_EQ(batch.first_visible, (Ids{0, 0, 0, 3, 3, 5, 5, 5, 6, 7}));
  apply_window(batch, 1);
  EXPECT_EQ(batch.first_visible, batch.q_index);
  auto padding = counting_batch(1, 3);
  pad_rows(padding, 4);
  apply_window(padding, 2);
  EXPECT_GT(padding.first_visible[3], padding.q_index[3]);
  EXPECT_THROW(apply_window(batch, 0), Error);
}

}  // namespace
}  // namespace fivefold
