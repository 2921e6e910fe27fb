// Attention output by tiles with a running maximum and sum (Milakov & Gimelshein 2018; Dao et al. 2022). A
// block is a head and a tile of queries.
#include "kernels/cuda/attention_tiles.cuh"

namespace fivefold::cuda {

namespace {

template <class T>
struct Forward {
  using A = Accum<T>;
  const T *q, *k, *v;
  const std::int32_t *q_index, *first_visible, *k_index;
  EitherOutput<T> out;
  A* lse;
  TileRanges ranges;
  std::int64_t queries, keys, heads, kv_heads, dim, value_dim;
  A scale;
};

template <class Tile>
__global__ void __launch_bounds__(kSide* kSide) forward_kernel(Forward<typename Tile::Type> op) {
  using T = typename Tile::Type;
  using A = Accum<T>;
  constexpr int R = Tile::kRows, C = Tile::kColumns, kEdge = Tile::kEdge;
  constexpr A kNothing = static_cast<A>(-INFINITY);
  extern __shared__ double shared[];
  A* const q = reinterpret_cast<A*>(shared);
  A* const k = q + kEdge * odd(op.dim);
  A* const v = k + kEdge * odd(op.dim);
  A* const p = v + kEdge * odd(op.value_dim);  // [query][key]
  const int y = static_cast<int>(threadIdx.x) / kSide, x = static_cast<int>(threadIdx.x) % kSide;
  // Later tiles see more keys under a causal mask: first the long ones.
  const std::int64_t tile = op.ranges.query_tiles - 1 - blockIdx.x, head = blockIdx.y, begin = tile * kEdge;
  const std::int64_t kv_head = head / (op.heads / op.kv_heads);
  load_rows(head_rows(op.q, op.heads, head, op.dim), begin, op.queries, kEdge, op.scale, q);
  std::int32_t first[R], last[R];
  A top[R], sum[R], out[R][C];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const std::int64_t i = begin + y + kSide * r;
    const bool here = i < op.queries;
    first[r] = here ? op.first_visible[i] : INT32_MAX;
    last[r] = here ? op.q_index[i] : INT32_MIN;
    top[r] = kNothing;
    sum[r] = 0;
#pragma unroll
    for (int c = 0; c < C; ++c) out[r][c] = 0;
  }
  const IndexRange mine = op.ranges.queries[tile];
  for (std::int64_t t = 0; t < op.ranges.key_tiles; ++t) {
    if (!meet(mine, op.ranges.keys[t])) continue;
    __syncthreads();  // the last tile has been used
    load_rows(head_rows(op.k, op.kv_heads, kv_head, op.dim), t * kEdge, op.keys, kEdge, A(1), k);
    load_rows(head_rows(op.v, op.kv_heads, kv_head, op.value_dim), t * kEdge, op.keys, kEdge, A(1), v);
    __syncthreads();
    A s[R][R];
    multiply_rows(q, k, op.dim, s);
#pragma unroll
    for (int c = 0; c < R; ++c) {
      const std::int64_t j = t * kEdge + x + kSide * c;
      const bool here = j < op.keys;
      const std::int32_t index = here ? op.k_index[j] : 0;
#pragma unroll
      for (int r = 0; r < R; ++r)
        if (!here || index < first[r] || index > last[r]) s[r][c] = kNothing;
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
      A now = top[r];
#pragma unroll
      for (int c = 0; c < R; ++c) now = Greatest()(now, s[r][c]);
      now = join_lanes<kSide>(now, Greatest());
      const A base = now == kNothing ? A(0) : now, shrink = exp_of(top[r] - base);
      A added = 0;
#pragma unroll
      for (int c = 0; c < R; ++c) {
        const A e = exp_of(s[r][c] - base);
        added += e;
        p[(y + kSide * r) * Tile::kPitch + x + kSide * c] = rounded<T>(e);
      }
      sum[r] = sum[r] * shrink + join_lanes<kSide>(added);
      top[r] = now;
#pragma unroll
      for (int c = 0; c < C; ++c) out[r][c] *= shrink;
    }
    __syncthreads();
    add_weighted(p, 1, Tile::kPitch, v, op.value_dim, out);
  }
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const std::int64_t i = begin + y + kSide * r, row = i * op.heads + head;
    if (i >= op.queries) continue;
    const bool blind = sum[r] == A(0);
    if (x == 0) op.lse[row] = blind ? kNothing : top[r] + log_of(sum[r]);
#pragma unroll
    for (int c = 0; c < C; ++c)
      if (x + kSide * c < op.value_dim)
        op.out.write(row * op.value_dim + x + kSide * c, blind ? A(0) : out[r][c] / sum[r]);
  }
}

template <class Tile>
void queue_forward(const AttentionForward& op, const CudaContext& ctx) {
  using T = typename Tile::Type;
  using A = Accum<T>;
  constexpr int kEdge = Tile::kEdge;
  const std::int64_t queries = op.q.dim(0), keys = op.k.dim(0), dim = op.q.dim(2), value_dim = op.v.dim(2);
  const std::int64_t bytes =
      kEdge * (2 * odd(dim) + odd(value_dim) + Tile::kPitch) * static_cast<std::int64_t>(sizeof(A));
  auto* const room = ctx.room<IndexRange>(ceil_div(queries, kEdge) + ceil_div(keys, kEdge));
  const Forward<T> f{elements<T>(op.q),
                     elements<T>(op.k),
                     elements<T>(op.v),
                     elements<std::int32_t>(op.q_index),
                     elements<std::int32_t>(op.first_visible),
                     elements<std::int32_t>(op.k_index),
                     either_output<T>(op.out, op.q.dtype()),
                     elements<A>(op.lse),
                     queue_ranges(op, kEdge, room, ctx.stream),
                     queries,
                     keys,
                     op.q.dim(1),
                     op.k.dim(1),
                     dim,
                     value_dim,
                     static_cast<A>(op.scale)};
  allow_shared(forward_kernel<Tile>, bytes);
  const dim3 grid(static_cast<unsigned>(f.ranges.query_tiles), static_cast<unsigned>(f.heads));
  forward_kernel<Tile><<<grid, kSide * kSide, static_cast<std::size_t>(bytes), ctx.stream>>>(f);
  FF_CUDA(cudaGetLastError());
}

}  // namespace

void plain_attention(const AttentionForward& op, const CudaContext& ctx) {
  if (op.lse.count() == 0) return;
  with_tiling(op.q.dtype(), std::max(op.q.dim(2), op.v.dim(2)),
              [&](auto tiling) { queue_forward<decltype(tiling)>(op, ctx); });
}

}  // namespace fivefold::cuda
