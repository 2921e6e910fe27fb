// Every block in exactly one stage, the split that costs least, and lists that cannot be.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "parallel/pipeline/split.h"

namespace fivefold {
namespace {

LayerCosts even(std::int64_t layers, double embedding = 0, double head = 0) {
  return {.blocks = std::vector<double>(layers, 1), .embedding = embedding, .head = head};
}

std::string split_text(const LayerCosts& costs, const StageMap& map) {
  return blocks_text(split_by_cost(costs, map));
}

TEST(PipelineSplit, EvenBlocks) {
  EXPECT_EQ(split_text(even(8), loop_map(4, 1)), "2, 2, 2, 2");
  EXPECT_EQ(split_text(even(10), loop_map(4, 1)), "2, 2, 3, 3");
  EXPECT_EQ(split_text(even(5), loop_map(1, 1)), "5");
  EXPECT_EQ(split_text(even(7), loop_map(7, 1)), "1, 1, 1, 1, 1, 1, 1");
}

TEST(PipelineSplit, HeadAndEmbeddingTakeTheirPart) {
  EXPECT_EQ(split_text(even(10, 0, 1), loop_map(4, 1)), "2, 3, 3, 2");
  EXPECT_EQ(split_text(even(10, 1, 1), loop_map(4, 1)), "2, 3, 3, 2");
  EXPECT_EQ(split_text(even(16, 0.1, 2), loop_map(4, 1)), "4, 4, 5, 3");
  // A head as dear as four blocks has a stage of its own.
  EXPECT_EQ(split_text(even(16, 0, 4.3), loop_map(8, 1)), "2, 2, 2, 2, 2, 3, 3, 0");
}

TEST(PipelineSplit, UnevenBlocks) {
  // Three dense layers before dearer ones.
  const LayerCosts costs{.blocks = {1, 1, 1, 3, 3, 3}, .embedding = 0, .head = 0};
  EXPECT_EQ(split_text(costs, loop_map(4, 1)), "3, 1, 1, 1");
}

TEST(PipelineSplit, RanksOfSeveralStagesAreEvenToo) {
  const auto loads = [](const std::vector<StageLayers>& split, const StageMap& map) {
    std::vector<std::int64_t> out(map.ranks, 0);
    for (int s = 0; s < map.stages(); ++s) out[map.rank_of[s]] += split[s].blocks();
    return out;
  };
  for (std::int64_t layers = 8; layers <= 30; ++layers)
    for (const auto& map : {loop_map(4, 2), vee_map(4), loop_map(2, 4)}) {
      const auto split = split_by_cost(even(layers), map);
      const auto of_ranks = loads(split, map);
      const auto [least, most] = std::minmax_element(of_ranks.begin(), of_ranks.end());
      EXPECT_LE(*most - *least, 1) << blocks_text(split);
    }
  // The head's rank gets fewer blocks in either of its stages.
  EXPECT_EQ(loads(split_by_cost(even(20, 0, 4), loop_map(4, 2)), loop_map(4, 2)),
            (std::vector<std::int64_t>{6, 6, 6, 2}));
}

// The dearest stage is as cheap as in the best of all splits, for any layer count over any stage count.
TEST(PipelineSplit, NoSplitIsCheaper) {
  const auto dearest = [](const LayerCosts& costs, const std::vector<std::int64_t>& counts) {
    double most = 0;
    std::int64_t first = 0;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      const auto from = costs.blocks.begin() + first;
      double cost = std::accumulate(from, from + counts[s], 0.0) + (s == 0 ? costs.embedding : 0);
      if (s + 1 == counts.size()) cost += costs.head;
      most = std::max(most, cost);
      first += counts[s];
    }
    return most;
  };
  for (int layers = 1; layers <= 9; ++layers)
    for (int stages = 1; stages <= std::min(layers, 5); ++stages)
      for (const double head : {0.0, 0.5, 3.0}) {
        auto costs = even(layers, 0.25, head);
        for (int i = 0; i < layers; ++i) costs.blocks[i] += 0.5 * (i * 7 % 3);
        double best = 1e9;
        std::vector<std::int64_t> counts;
        const std::function<void(int)> try_all = [&](int left) {
          if (static_cast<int>(counts.size()) + 1 == stages) {
            counts.push_back(left);
            best = std::min(best, dearest(costs, counts));
            counts.pop_back();
            return;
          }
          for (int n = 0; n <= left; ++n) {
            counts.push_back(n);
            try_all(left - n);
            counts.pop_back();
          }
        };
        try_all(layers);
        std::vector<std::int64_t> found;
        for (const auto& stage : split_by_cost(costs, loop_map(stages, 1))) found.push_back(stage.blocks());
        EXPECT_DOUBLE_EQ(dearest(costs, found), best)
            << layers << " blocks, " << stages << " stages, head " << head;
      }
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

TEST(PipelineSplit, FewerBlocksThanStages) {
  EXPECT_EQ(refusal([] { split_by_cost(even(3), loop_map(2, 2)); }),
            "every virtual stage holds at least one block, but there are 4 stages and 3 blocks; the most "
            "stages is 3");
}

// B36: block numbers are those of the whole model, in order, under chunks and with a short last stage.
TEST(PipelineSplit, GivenListNumbersBlocksThrough) {
  const auto map = loop_map(2, 2);
  const std::vector<std::int64_t> blocks{3, 3, 3, 1};
  const auto split = split_as_given(blocks, 10, map, split_by_cost(even(10), map));
  EXPECT_EQ(split,
            (std::vector<StageLayers>{
                {0, 3, true, false}, {3, 6, false, false}, {6, 9, false, false}, {9, 10, false, true}}));
  EXPECT_EQ(stage_map_text(split, map),
            "stage 0  rank 0  embedding, blocks 0-2\n"
            "stage 1  rank 1  blocks 3-5\n"
            "stage 2  rank 0  blocks 6-8\n"
            "stage 3  rank 1  block 9, head\n");
  const std::vector<std::int64_t> ends_alone{0, 4, 6, 0};
  EXPECT_EQ(stage_map_text(split_as_given(ends_alone, 10, vee_map(2), {}), vee_map(2)),
            "stage 0  rank 0  embedding\n"
            "stage 1  rank 1  blocks 0-3\n"
            "stage 2  rank 1  blocks 4-9\n"
            "stage 3  rank 0  head\n");
}

// B37: a list that contradicts the model or the layout is refused, and the refusal says what would work.
TEST(PipelineSplit, ContradictionsAreRefused) {
  const auto given = [](std::vector<std::int64_t> blocks, std::int64_t layers, const StageMap& map) {
    return refusal([&] { split_as_given(blocks, layers, map, split_by_cost(even(layers), map)); });
  };
  EXPECT_EQ(
      given({1}, 20, loop_map(1, 1)),
      "parallel.stage_layers must sum to the model's 20 blocks, but it sums to 1; a split that works is 20");
  EXPECT_EQ(given({10, 1}, 20, loop_map(1, 1)),
            "parallel.stage_layers needs one number for each virtual stage, but it has 2 for 1 stages; a "
            "split that works is 20");
  EXPECT_EQ(given({4, 0, 4}, 8, loop_map(3, 1)),
            "parallel.stage_layers gives stage 1 of 3 0 blocks, but only the first and the last stage may do "
            "without; a split "
            "that works is 2, 3, 3");
  EXPECT_EQ(given({9, -1}, 8, loop_map(2, 1)),
            "parallel.stage_layers gives stage 1 of 2 -1 blocks, but only the first and the last stage may "
            "do without; a split "
            "that works is 4, 4");
  EXPECT_EQ(given({4, 4}, 8, loop_map(2, 1)), "");
}

TEST(PipelineSplit, CheckFindsGapsAndRepeats) {
  const auto map = loop_map(2, 1);
  EXPECT_NO_THROW(check_split({{0, 2, true, false}, {2, 4, false, true}}, 4, map));
  EXPECT_THROW(check_split({{0, 2, true, false}, {1, 4, false, true}}, 4, map), Error);
  EXPECT_THROW(check_split({{0, 2, true, false}, {3, 4, false, true}}, 4, map), Error);
  EXPECT_THROW(check_split({{0, 2, true, false}, {2, 3, false, true}}, 4, map), Error);
  EXPECT_THROW(check_split({{0, 2, true, false}, {2, 4, false, false}}, 4, map), Error);
  EXPECT_THROW(check_split({{0, 2, true, false}, {2, 4, true, true}}, 4, map), Error);
  EXPECT_THROW(check_split({{0, 4, true, true}}, 4, map), Error);
}

}  // namespace
}  // namespace fivefold
