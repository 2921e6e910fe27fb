// Which tiles attention visits: never fewer than the mask needs, no more than it should, and what can run
// apart is apart.
#include "kernels/cpu/attention_tiles.h"

#include "kernels/cases/masks.h"
#include "tests/kernels/cpu_fixture.h"

namespace fivefold::cpu {
namespace {

using cases::Mask;

class AttentionTilesTest : public CpuFixture {
 protected:
  AttentionPlan plan(const Mask& mask) {
    k_index_ = indices(mask.k_index);
    return plan_attention(indices(mask.q_index), indices(mask.first_visible), k_index_);
  }
  Tensor indices(const Numbers& numbers) {
    return tensor({static_cast<std::int64_t>(numbers.size())}, DType::i32, numbers);
  }

  static std::vector<Mask> masks() {
    const std::vector<std::int64_t> documents{1, 40, 5, 64, 33, 7, 200}, real{100, 64, 0, 3};
    return {
        cases::causal_mask(3, 100),        cases::causal_mask(2, 256),       cases::causal_mask(1, 300, 70),
        cases::document_mask(documents),   cases::padded_mask(100, real),    cases::full_mask(70, 130),
        cases::ring_mask(2, 256, 2, 1, 0), cases::ring_mask(3, 64, 4, 0, 3), cases::full_mask(5, 0)};
  }

  Tensor k_index_;
};

// Pairs of (query, key) that the plan visits, and of them those it calls wholly visible.
struct Visits {
  std::vector<std::vector<int>> pairs;  // [query][key]: 0 not visited, 1 visited, 2 called visible
  std::int64_t count = 0;
};
Visits visits_of(const AttentionPlan& plan, const Mask& mask) {
  Visits visits;
  visits.pairs.assign(mask.q_index.size(), std::vector<int>(mask.k_index.size()));
  for (const auto& block : plan.blocks)
    for (std::int64_t s = 0; s < block.strips; ++s)
      for (const auto t : plan.tiles_of(block)) {
        const auto& tile = plan.tiles[static_cast<std::size_t>(t)];
        const auto sight = plan.sight(plan.strips[static_cast<std::size_t>(block.first_strip + s)], tile);
        const auto first_row = block.begin + s * kStrip;
        for (auto row = first_row; row < std::min(first_row + kStrip, block.end); ++row)
          for (auto j = tile.begin + sight.begin; j < tile.begin + sight.end; ++j, ++visits.count)
            visits.pairs[static_cast<std::size_t>(row)][static_cast<std::size_t>(j)] += sight.whole ? 2 : 1;
      }
  return visits;
}

TEST_F(AttentionTilesTest, EveryVisiblePairIsVisitedOnce) {
  for (const auto& mask : masks()) {
    const auto visits = visits_of(plan(mask), mask);
    for (std::int64_t i = 0; i < mask.queries(); ++i)
      for (std::int64_t j = 0; j < mask.keys(); ++j) {
        const int visit = visits.pairs[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
        ASSERT_TRUE(mask.sees(i, j) ? visit == 1 || visit == 2 : visit <= 1)
            << mask.name << ' ' << i << ' ' << j;
      }
  }
}

// A causal batch costs little more than the pairs it shows: rows of a strip share the keys of the last of
// them.
TEST_F(AttentionTilesTest, CausalSequencesCostTheirTriangles) {
  for (const std::int64_t length : {100, 256, 1024}) {
    const auto mask = cases::causal_mask(4, length);
    const auto visits = visits_of(plan(mask), mask);
    EXPECT_LE(static_cast<double>(visits.count),
              mask.visible_pairs() + 4.0 * static_cast<double>(length * (kStrip - 1)))
        << length;
  }
}

TEST_F(AttentionTilesTest, SequencesAreComponents) {
  for (const std::int64_t length : {64, 100, 256}) {
    const auto mask = cases::causal_mask(5, length);
    EXPECT_EQ(components_of(plan(mask)).size(), 5u) << length;
  }
  EXPECT_EQ(components_of(plan(cases::ring_mask(3, 256, 2, 1, 1))).size(), 3u);
  EXPECT_EQ(components_of(plan(cases::causal_mask(1, 300, 70))).size(), 1u);
}

TEST_F(AttentionTilesTest, ComponentsPartBlocksAndTiles) {
  for (const auto& mask : masks()) {
    const auto p = plan(mask);
    std::vector<int> blocks(p.blocks.size()), tiles(p.tiles.size());
    for (const auto& c : components_of(p)) {
      for (auto t = c.tile_begin; t < c.tile_end; ++t) ++tiles[static_cast<std::size_t>(t)];
      for (const auto b : c.blocks) {
        ++blocks[static_cast<std::size_t>(b)];
        for (const auto t : p.tiles_of(p.blocks[static_cast<std::size_t>(b)]))
          EXPECT_TRUE(c.tile_begin <= t && t < c.tile_end) << mask.name;
      }
    }
    EXPECT_EQ(blocks, std::vector<int>(blocks.size(), 1)) << mask.name;
    EXPECT_EQ(tiles, std::vector<int>(tiles.size(), 1)) << mask.name;
  }
}

}  // namespace
}  // namespace fivefold::cpu
