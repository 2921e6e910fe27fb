// Cuts queries and keys into tiles and finds which of them meet.
#include "kernels/cpu/attention_tiles.h"

#include <limits>

namespace fivefold::cpu {
namespace {

using Index = std::int32_t;
using Indices = std::span<const Index>;
constexpr Index kLowest = std::numeric_limits<Index>::min(), kHighest = std::numeric_limits<Index>::max();
// Below this many rows a block is not cut at a document's end: tiles of a few rows cost more than they skip.
constexpr std::int64_t kSmallestCut = 32;

Indices indices_of(const Tensor& t) { return {t.data<Index>(), static_cast<std::size_t>(t.count())}; }
template <class T>
auto& at(T& values, std::int64_t i) {
  return values[static_cast<std::size_t>(i)];
}

QueryStrip make_strip(Indices first, Indices last, std::int64_t begin, std::int64_t end) {
  QueryStrip strip{{}, {}, kHighest, kLowest, kLowest, kHighest};
  strip.first.fill(kHighest);
  strip.last.fill(kLowest);
  for (std::int64_t row = begin; row < end; ++row) {
    const Index a = at(first, row), b = at(last, row);
    at(strip.first, row - begin) = a;
    at(strip.last, row - begin) = b;
    strip.max_first = std::max(strip.max_first, a);
    strip.min_last = std::min(strip.min_last, b);
    if (a > b) continue;
    strip.min_first = std::min(strip.min_first, a);
    strip.max_last = std::max(strip.max_last, b);
  }
  return strip;
}

// Cuts the rows into blocks. Where a block starts behind everything the block before it sees, a document
// ends: that index goes to `document_starts`.
void cut_queries(Indices first, Indices last, AttentionPlan& plan, std::vector<Index>& document_starts) {
  const auto rows = static_cast<std::int64_t>(first.size());
  std::int64_t begin = 0;
  Index seen = kLowest;  // the largest index the rows of this block see
  for (std::int64_t row = 0; row <= rows; ++row) {
    const bool sees = row < rows && at(first, row) <= at(last, row);
    const bool starts_document = sees && row > begin && seen != kLowest && at(first, row) > seen;
    const std::int64_t size = row - begin;
    if (size > 0 && (row == rows || size == kBlockRows || (starts_document && size >= kSmallestCut))) {
      if (starts_document) document_starts.push_back(at(first, row));
      plan.blocks.push_back({.begin = begin, .end = row});
      begin = row;
      seen = kLowest;
    }
    if (sees) seen = std::max(seen, at(last, row));
  }
  std::sort(document_starts.begin(), document_starts.end());
}

void add_strips(Indices first, Indices last, AttentionPlan& plan) {
  for (auto& block : plan.blocks) {
    block.first_strip = static_cast<std::int64_t>(plan.strips.size());
    block.strips = ceil_div(block.end - block.begin, kStrip);
    for (std::int64_t row = block.begin; row < block.end; row += kStrip)
      plan.strips.push_back(make_strip(first, last, row, std::min(row + kStrip, block.end)));
  }
}

KeyTile make_tile(Indices keys, std::int64_t begin, std::int64_t end) {
  KeyTile tile{begin, end, kHighest, kLowest};
  for (std::int64_t row = begin; row < end; ++row) {
    tile.min = std::min(tile.min, at(keys, row));
    tile.max = std::max(tile.max, at(keys, row));
  }
  return tile;
}

// A tile ends after 64 keys, or where the keys cross the start of a document at which the queries were cut.
void cut_keys(Indices keys, const std::vector<Index>& document_starts, AttentionPlan& plan) {
  const auto document_of = [&](std::int64_t row) {
    return std::upper_bound(document_starts.begin(), document_starts.end(), at(keys, row));
  };
  const auto rows = static_cast<std::int64_t>(keys.size());
  std::int64_t begin = 0;
  for (std::int64_t row = 1; row <= rows; ++row) {
    if (row < rows && row - begin < kTileKeys && document_of(row) == document_of(row - 1)) continue;
    plan.tiles.push_back(make_tile(keys, begin, row));
    begin = row;
  }
}

void find_visible(AttentionPlan& plan) {
  for (auto& block : plan.blocks) {
    Index first = kHighest, last = kLowest;
    for (std::int64_t s = 0; s < block.strips; ++s) {
      first = std::min(first, at(plan.strips, block.first_strip + s).min_first);
      last = std::max(last, at(plan.strips, block.first_strip + s).max_last);
    }
    block.visible_begin = static_cast<std::int64_t>(plan.visible.size());
    for (std::size_t t = 0; t < plan.tiles.size(); ++t)
      if (plan.tiles[t].max >= first && plan.tiles[t].min <= last)
        plan.visible.push_back(static_cast<std::int64_t>(t));
    block.visible_end = static_cast<std::int64_t>(plan.visible.size());
  }
}

// For each tile, whether some block sees both it (or one before it) and a tile behind it.
std::vector<bool> joined_to_next(const AttentionPlan& plan) {
  std::vector<std::int64_t> opened(plan.tiles.size() + 1);
  for (const auto& block : plan.blocks) {
    const auto tiles = plan.tiles_of(block);
    if (tiles.empty()) continue;
    ++at(opened, tiles.front());
    --at(opened, tiles.back());
  }
  std::vector<bool> joined(plan.tiles.size());
  std::int64_t open = 0;
  for (std::size_t t = 0; t < joined.size(); ++t) {
    open += opened[t];
    joined[t] = open > 0;
  }
  return joined;
}

}  // namespace

StripSight AttentionPlan::sight(const QueryStrip& strip, const KeyTile& tile) const {
  const std::int64_t keys = tile.end - tile.begin;
  if (tile.min >= strip.max_first && tile.max <= strip.min_last) return {0, keys, true};
  const Index* const index = k_index.data() + tile.begin;
  const auto seen = [&](std::int64_t j) { return strip.min_first <= index[j] && index[j] <= strip.max_last; };
  std::int64_t begin = 0, end = keys;
  while (begin < end && !seen(begin)) ++begin;
  while (end > begin && !seen(end - 1)) --end;
  return {begin, end, false};
}

AttentionPlan plan_attention(const Tensor& q_index, const Tensor& first_visible, const Tensor& k_index) {
  const Indices last = indices_of(q_index), first = indices_of(first_visible);
  AttentionPlan plan;
  plan.k_index = indices_of(k_index);
  std::vector<Index> document_starts;
  cut_queries(first, last, plan, document_starts);
  add_strips(first, last, plan);
  cut_keys(plan.k_index, document_starts, plan);
  find_visible(plan);
  return plan;
}

std::vector<AttentionComponent> components_of(const AttentionPlan& plan) {
  std::vector<AttentionComponent> components(1);
  std::vector<std::size_t> component_of(plan.tiles.size());
  const auto joined = joined_to_next(plan);
  const auto count = static_cast<std::int64_t>(plan.tiles.size());
  for (std::int64_t t = 0; t < count; ++t) {
    at(component_of, t) = components.size() - 1;
    components.back().tile_end = t + 1;
    if (!joined[static_cast<std::size_t>(t)] && t + 1 < count) components.push_back({t + 1, t + 1, {}});
  }
  for (std::size_t b = 0; b < plan.blocks.size(); ++b) {
    const auto tiles = plan.tiles_of(plan.blocks[b]);
    const std::size_t owner = tiles.empty() ? 0 : at(component_of, tiles.front());
    components[owner].blocks.push_back(static_cast<std::int64_t>(b));
  }
  return components;
}

}  // namespace fivefold::cpu
