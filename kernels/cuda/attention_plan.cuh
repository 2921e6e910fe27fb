// Which tiles of keys a tile of queries sees, from the least and greatest index of both, made on the device
// before attention by tensor cores: a small kernel for the bounds of tiles, one for the span of tiles each
// tile has to walk.
#pragma once
#include "kernels/cuda/device.cuh"
#include "kernels/ops/attention.h"

namespace fivefold::cuda {

// Of a tile of queries: keys outside [least, most] are seen by none of its rows, keys inside [all_from,
// all_to] by every row. Of a tile of keys: its indices lie in [least, most]; [all_from, all_to] is the same
// where the tile is whole, and more than any query sees where it ends early.
struct TileBounds {
  std::int32_t least, most, all_from, all_to;
};
struct TileSpan {
  std::int32_t begin, end;
};

__device__ __forceinline__ bool some_seen(const TileBounds& queries, const TileBounds& keys) {
  return keys.least <= queries.most && queries.least <= keys.most;
}
__device__ __forceinline__ bool all_seen(const TileBounds& queries, const TileBounds& keys) {
  return queries.all_from <= keys.all_from && keys.all_to <= queries.all_to;
}

// In scratch. Tiles outside a span see nothing of the tile it belongs to; tiles inside may or may not.
struct TilePlan {
  TileBounds *queries, *keys;
  TileSpan *keys_of, *queries_of;  // of each tile of queries; of each tile of keys
  int query_edge, key_edge, query_tiles, key_tiles;
};

// The tiles of the other side that a tile sees some of, in order.
struct SeenTiles {
  const TileBounds* others;
  TileBounds mine;
  TileSpan span;

  // The first at `t` or behind it, end() if there is none.
  __device__ __forceinline__ int from(int t) const {
    while (t < span.end && !some_seen(mine, others[t])) ++t;
    return t;
  }
  __device__ __forceinline__ int first() const { return from(span.begin); }
  __device__ __forceinline__ int end() const { return span.end; }
};
__device__ __forceinline__ SeenTiles keys_seen(const TilePlan& plan, int query_tile) {
  return {plan.keys, plan.queries[query_tile], plan.keys_of[query_tile]};
}
// Of `count` tiles of queries together, those from `query_tile` that there are.
__device__ __forceinline__ SeenTiles keys_seen(const TilePlan& plan, int query_tile, int count) {
  SeenTiles seen = keys_seen(plan, query_tile);
  for (int i = query_tile + 1; i < min(query_tile + count, plan.query_tiles); ++i) {
    const TileBounds more = plan.queries[i];
    const TileSpan span = plan.keys_of[i];
    seen.mine = {min(seen.mine.least, more.least), max(seen.mine.most, more.most),
                 max(seen.mine.all_from, more.all_from), min(seen.mine.all_to, more.all_to)};
    seen.span = {min(seen.span.begin, span.begin), max(seen.span.end, span.end)};
  }
  return seen;
}
__device__ __forceinline__ SeenTiles queries_seen(const TilePlan& plan, int key_tile) {
  return {plan.queries, plan.keys[key_tile], plan.queries_of[key_tile]};
}

// Bytes of scratch that a plan takes, a multiple of 256.
std::int64_t plan_bytes(std::int64_t queries, std::int64_t keys, int query_edge, int key_edge);
// Queues the kernels that fill a plan at `room`, which is aligned to 256 bytes.
TilePlan queue_plan(const Tensor& q_index, const Tensor& first_visible, const Tensor& k_index, int query_edge,
                    int key_edge, void* room, cudaStream_t stream);

}  // namespace fivefold::cuda
