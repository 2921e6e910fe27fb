// Which keys which queries see, in tiles. Computed once per call from the three index arrays and shared by
// all heads. Queries come in blocks of 64 rows made of strips of 16 (one vector panel: scores are kept keys
// down, queries across, so maxima and sums over keys need no work across lanes); keys in tiles of 64. Both
// are cut where documents end, so that what shares no key lies in different components.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace fivefold::cpu {

constexpr std::int64_t kStrip = 16;
constexpr std::int64_t kBlockRows = 64;
constexpr std::int64_t kTileKeys = 64;
constexpr std::int64_t kStripsOfBlock = kBlockRows / kStrip;

// Row i of a strip sees keys with first[i] <= k_index <= last[i]. Lanes behind the last row see nothing.
struct QueryStrip {
  std::array<std::int32_t, kStrip> first, last;
  std::int32_t min_first, max_last;  // over the rows that see something; min_first > max_last when none does
  std::int32_t max_first, min_last;  // over all rows
};

struct QueryBlock {
  std::int64_t begin = 0, end = 0;                  // rows
  std::int64_t first_strip = 0, strips = 0;         // of AttentionPlan::strips
  std::int64_t visible_begin = 0, visible_end = 0;  // of AttentionPlan::visible
};

struct KeyTile {
  std::int64_t begin = 0, end = 0;  // rows
  std::int32_t min = 0, max = 0;    // of k_index
};

// Keys [begin, end) of a tile, counted from its first, outside which a strip sees nothing; `whole`: every row
// sees all of them.
struct StripSight {
  std::int64_t begin = 0, end = 0;
  bool whole = false;
  bool empty() const { return begin >= end; }
};

struct AttentionPlan {
  std::vector<QueryStrip> strips;
  std::vector<QueryBlock> blocks;
  std::vector<KeyTile> tiles;
  std::vector<std::int64_t> visible;  // tiles some row of a block may see, ascending, block after block
  std::span<const std::int32_t> k_index;

  std::span<const std::int64_t> tiles_of(const QueryBlock& block) const {
    return {visible.data() + block.visible_begin, visible.data() + block.visible_end};
  }
  StripSight sight(const QueryStrip& strip, const KeyTile& tile) const;
};

// The arrays are those of AttentionForward and must outlive the plan.
AttentionPlan plan_attention(const Tensor& q_index, const Tensor& first_visible, const Tensor& k_index);

// Key tiles [tile_begin, tile_end) and the blocks that see any of them; no block sees tiles of two
// components. Every block and every tile belongs to exactly one. Blocks that see nothing are with the first.
struct AttentionComponent {
  std::int64_t tile_begin = 0, tile_end = 0;
  std::vector<std::int64_t> blocks;
};
std::vector<AttentionComponent> components_of(const AttentionPlan& plan);

}  // namespace fivefold::cpu
