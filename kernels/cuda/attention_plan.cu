// Bounds and spans of tiles, a warp a tile.
#include "kernels/cuda/attention_plan.cuh"

namespace fivefold::cuda {

namespace {

__device__ __forceinline__ std::int32_t least_of_lanes(std::int32_t x) {
  return __reduce_min_sync(0xffffffffu, x);
}
__device__ __forceinline__ std::int32_t most_of_lanes(std::int32_t x) {
  return __reduce_max_sync(0xffffffffu, x);
}

struct Indices {
  const std::int32_t *q_index, *first_visible, *k_index;
  int queries, keys;
};

__device__ TileBounds bounds_of_queries(const Indices& index, int begin, int end, int lane) {
  TileBounds b{INT32_MAX, INT32_MIN, INT32_MIN, INT32_MAX};
  for (int i = begin + lane; i < min(end, index.queries); i += 32) {
    const std::int32_t first = index.first_visible[i], last = index.q_index[i];
    b.all_from = max(b.all_from, first);
    b.all_to = min(b.all_to, last);
    if (first > last) continue;  // sees nothing
    b.least = min(b.least, first);
    b.most = max(b.most, last);
  }
  return {least_of_lanes(b.least), most_of_lanes(b.most), most_of_lanes(b.all_from),
          least_of_lanes(b.all_to)};
}

__device__ TileBounds bounds_of_keys(const Indices& index, int begin, int end, int lane) {
  std::int32_t least = INT32_MAX, most = INT32_MIN;
  for (int i = begin + lane; i < min(end, index.keys); i += 32) {
    least = min(least, index.k_index[i]);
    most = max(most, index.k_index[i]);
  }
  least = least_of_lanes(least);
  most = most_of_lanes(most);
  if (end > index.keys) return {least, most, INT32_MIN, INT32_MAX};
  return {least, most, least, most};
}

__global__ void bounds_kernel(Indices index, TilePlan plan) {
  const int tile = static_cast<int>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32), key_tile = tile - plan.query_tiles;
  if (key_tile >= plan.key_tiles) return;
  const bool of_keys = key_tile >= 0;
  const TileBounds b =
      of_keys ? bounds_of_keys(index, key_tile * plan.key_edge, (key_tile + 1) * plan.key_edge, lane)
              : bounds_of_queries(index, tile * plan.query_edge, (tile + 1) * plan.query_edge, lane);
  if (lane == 0) (of_keys ? plan.keys[key_tile] : plan.queries[tile]) = b;
}

__global__ void spans_kernel(TilePlan plan) {
  const int tile = static_cast<int>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32), key_tile = tile - plan.query_tiles;
  if (key_tile >= plan.key_tiles) return;
  const bool of_keys = key_tile >= 0;
  const TileBounds mine = of_keys ? plan.keys[key_tile] : plan.queries[tile];
  std::int32_t begin = INT32_MAX, end = 0;
  for (int other = lane; other < (of_keys ? plan.query_tiles : plan.key_tiles); other += 32) {
    const bool seen = of_keys ? some_seen(plan.queries[other], mine) : some_seen(mine, plan.keys[other]);
    if (!seen) continue;
    begin = min(begin, other);
    end = max(end, other + 1);
  }
  const TileSpan span{least_of_lanes(begin), most_of_lanes(end)};
  if (lane == 0) (of_keys ? plan.queries_of[key_tile] : plan.keys_of[tile]) = span;
}

}  // namespace

std::int64_t plan_bytes(std::int64_t queries, std::int64_t keys, int query_edge, int key_edge) {
  const std::int64_t tiles = ceil_div(queries, query_edge) + ceil_div(keys, key_edge);
  return round_up(tiles * static_cast<std::int64_t>(sizeof(TileBounds) + sizeof(TileSpan)), 256);
}

TilePlan queue_plan(const Tensor& q_index, const Tensor& first_visible, const Tensor& k_index, int query_edge,
                    int key_edge, void* room, cudaStream_t stream) {
  const Indices index{elements<std::int32_t>(q_index), elements<std::int32_t>(first_visible),
                      elements<std::int32_t>(k_index), static_cast<int>(q_index.count()),
                      static_cast<int>(k_index.count())};
  TilePlan plan{};
  plan.query_edge = query_edge;
  plan.key_edge = key_edge;
  plan.query_tiles = static_cast<int>(ceil_div(index.queries, query_edge));
  plan.key_tiles = static_cast<int>(ceil_div(index.keys, key_edge));
  plan.queries = static_cast<TileBounds*>(room);
  plan.keys = plan.queries + plan.query_tiles;
  plan.keys_of = reinterpret_cast<TileSpan*>(plan.keys + plan.key_tiles);
  plan.queries_of = plan.keys_of + plan.query_tiles;
  const int tiles = plan.query_tiles + plan.key_tiles;
  if (tiles == 0) return plan;
  constexpr int kWarps = 4;
  const unsigned blocks = blocks_for(tiles, kWarps, INT32_MAX);
  bounds_kernel<<<blocks, 32 * kWarps, 0, stream>>>(index, plan);
  spans_kernel<<<blocks, 32 * kWarps, 0, stream>>>(plan);
  FF_CUDA(cudaGetLastError());
  return plan;
}

}  // namespace fivefold::cuda
