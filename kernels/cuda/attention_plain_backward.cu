// Gradients of attention by tiles, with the probabilities computed again from the log-sum-exp (Dao et al.
// 2022). One kernel owns tiles of keys (dk and dv), another tiles of queries (dq): each sum belongs to one
// thread, so there are no atomics and one order.
#include "kernels/cuda/attention_tiles.cuh"

namespace fivefold::cuda {

namespace {

template <class T>
struct Backward {
  using A = Accum<T>;
  const T *q, *k, *v, *d_out;
  const std::int32_t *q_index, *first_visible, *k_index;
  EitherOutput<T> out, dq, dk, dv;
  const A* lse;
  A* delta;  // [Tq, Hq]: sum over a head of out * d_out
  TileRanges ranges;
  std::int64_t queries, keys, heads, kv_heads, dim, value_dim;
  A scale;
};

template <class T>
__global__ void delta_kernel(Backward<T> op) {
  using A = Accum<T>;
  const std::int64_t warps = blockDim.x / 32, lane = threadIdx.x % 32, rows = op.queries * op.heads;
  for (std::int64_t row = blockIdx.x * warps + threadIdx.x / 32; row < rows; row += gridDim.x * warps) {
    A sum = 0;
    for (std::int64_t i = row * op.value_dim + lane; i < (row + 1) * op.value_dim; i += 32)
      sum += op.out.read(i) * widen<A>(op.d_out[i]);
    sum = join_lanes(sum);
    if (lane == 0) op.delta[row] = sum;
  }
}

// Shared memory of a block: the rows of two tiles, probabilities and score gradients [query][key].
template <class Tile>
struct Room {
  using A = typename Tile::A;
  A *q, *k, *v, *d_out, *p, *ds;
  __device__ Room(A* at, std::int64_t dim, std::int64_t value_dim)
      : q(at),
        k(q + Tile::kEdge * odd(dim)),
        v(k + Tile::kEdge * odd(dim)),
        d_out(v + Tile::kEdge * odd(value_dim)),
        p(d_out + Tile::kEdge * odd(value_dim)),
        ds(p + Tile::kEdge * Tile::kPitch) {}
  static std::int64_t bytes(std::int64_t dim, std::int64_t value_dim) {
    return 2 * Tile::kEdge * (odd(dim) + odd(value_dim) + Tile::kPitch) *
           static_cast<std::int64_t>(sizeof(A));
  }
};

// p and ds, rounded, of one tile of queries with one of keys; the rows are loaded. Queries that see nothing
// and pairs that do not see each other give 0. q holds scaled queries.
template <class Tile>
__device__ void differentiate(const Backward<typename Tile::Type>& op, const Room<Tile>& room,
                              std::int64_t head, std::int64_t query_begin, std::int64_t key_begin) {
  using T = typename Tile::Type;
  using A = Accum<T>;
  constexpr int R = Tile::kRows;
  const int y = static_cast<int>(threadIdx.x) / kSide, x = static_cast<int>(threadIdx.x) % kSide;
  A s[R][R], dp[R][R];
  multiply_rows(room.q, room.k, op.dim, s);
  multiply_rows(room.d_out, room.v, op.value_dim, dp);
  std::int32_t index[R];
  bool key_here[R];
#pragma unroll
  for (int c = 0; c < R; ++c) {
    const std::int64_t j = key_begin + x + kSide * c;
    key_here[c] = j < op.keys;
    index[c] = key_here[c] ? op.k_index[j] : 0;
  }
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const std::int64_t i = query_begin + y + kSide * r;
    const bool here = i < op.queries;
    const std::int32_t first = here ? op.first_visible[i] : INT32_MAX,
                       last = here ? op.q_index[i] : INT32_MIN;
    const A lse = here ? op.lse[i * op.heads + head] : A(0),
            delta = here ? op.delta[i * op.heads + head] : A(0);
#pragma unroll
    for (int c = 0; c < R; ++c) {
      const bool seen = here && key_here[c] && first <= index[c] && index[c] <= last;
      const A p = seen ? exp_of(s[r][c] - lse) : A(0), ds = seen ? p * (dp[r][c] - delta) : A(0);
      const int at = (y + kSide * r) * Tile::kPitch + x + kSide * c;
      room.p[at] = rounded<T>(p);
      room.ds[at] = rounded<T>(ds);
    }
  }
}

template <int Rows, int Columns, class A>
__device__ __forceinline__ void clear(A (&sum)[Rows][Columns]) {
#pragma unroll
  for (int r = 0; r < Rows; ++r)
#pragma unroll
    for (int c = 0; c < Columns; ++c) sum[r][c] = 0;
}

// Rows begin + y + 16 r of head `head` of `heads`.
template <int Rows, int Columns, class T>
__device__ __forceinline__ void write_rows(const EitherOutput<T>& to, std::int64_t begin, std::int64_t end,
                                           std::int64_t heads, std::int64_t head, std::int64_t width,
                                           Accum<T> by, const Accum<T> (&sum)[Rows][Columns]) {
  const int y = static_cast<int>(threadIdx.x) / kSide, x = static_cast<int>(threadIdx.x) % kSide;
#pragma unroll
  for (int r = 0; r < Rows; ++r)
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
      const std::int64_t row = begin + y + kSide * r, column = x + kSide * c;
      if (row < end && column < width) to.write((row * heads + head) * width + column, by * sum[r][c]);
    }
}

// dk and dv of a tile of keys of a kv head: all its query heads, all tiles of queries, in order.
template <class Tile>
__global__ void __launch_bounds__(kSide* kSide) keys_kernel(Backward<typename Tile::Type> op) {
  using A = typename Tile::A;
  extern __shared__ double shared[];
  const Room<Tile> room(reinterpret_cast<A*>(shared), op.dim, op.value_dim);
  const std::int64_t tile = blockIdx.x, kv_head = blockIdx.y, begin = tile * Tile::kEdge;
  const std::int64_t group = op.heads / op.kv_heads;
  load_rows(head_rows(op.k, op.kv_heads, kv_head, op.dim), begin, op.keys, Tile::kEdge, A(1), room.k);
  load_rows(head_rows(op.v, op.kv_heads, kv_head, op.value_dim), begin, op.keys, Tile::kEdge, A(1), room.v);
  const IndexRange mine = op.ranges.keys[tile];
  A dk[Tile::kRows][Tile::kColumns], dv[Tile::kRows][Tile::kColumns];
  clear(dk);
  clear(dv);
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
    for (std::int64_t t = 0; t < op.ranges.query_tiles; ++t) {
      if (!meet(op.ranges.queries[t], mine)) continue;
      __syncthreads();
      load_rows(head_rows(op.q, op.heads, head, op.dim), t * Tile::kEdge, op.queries, Tile::kEdge, op.scale,
                room.q);
      load_rows(head_rows(op.d_out, op.heads, head, op.value_dim), t * Tile::kEdge, op.queries, Tile::kEdge,
                A(1), room.d_out);
      __syncthreads();
      differentiate(op, room, head, t * Tile::kEdge, begin);
      __syncthreads();
      add_weighted(room.p, Tile::kPitch, 1, room.d_out, op.value_dim, dv);
      add_weighted(room.ds, Tile::kPitch, 1, room.q, op.dim, dk);
    }
  // The scale is already in the queries that made dk.
  write_rows(op.dk, begin, op.keys, op.kv_heads, kv_head, op.dim, A(1), dk);
  write_rows(op.dv, begin, op.keys, op.kv_heads, kv_head, op.value_dim, A(1), dv);
}

// dq of a tile of queries of a head: all tiles of keys, in order.
template <class Tile>
__global__ void __launch_bounds__(kSide* kSide) queries_kernel(Backward<typename Tile::Type> op) {
  using A = typename Tile::A;
  extern __shared__ double shared[];
  const Room<Tile> room(reinterpret_cast<A*>(shared), op.dim, op.value_dim);
  const std::int64_t tile = op.ranges.query_tiles - 1 - blockIdx.x, head = blockIdx.y,
                     begin = tile * Tile::kEdge;
  const std::int64_t kv_head = head / (op.heads / op.kv_heads);
  load_rows(head_rows(op.q, op.heads, head, op.dim), begin, op.queries, Tile::kEdge, op.scale, room.q);
  load_rows(head_rows(op.d_out, op.heads, head, op.value_dim), begin, op.queries, Tile::kEdge, A(1),
            room.d_out);
  const IndexRange mine = op.ranges.queries[tile];
  A dq[Tile::kRows][Tile::kColumns];
  clear(dq);
  for (std::int64_t t = 0; t < op.ranges.key_tiles; ++t) {
    if (!meet(mine, op.ranges.keys[t])) continue;
    __syncthreads();
    load_rows(head_rows(op.k, op.kv_heads, kv_head, op.dim), t * Tile::kEdge, op.keys, Tile::kEdge, A(1),
              room.k);
    load_rows(head_rows(op.v, op.kv_heads, kv_head, op.value_dim), t * Tile::kEdge, op.keys, Tile::kEdge,
              A(1), room.v);
    __syncthreads();
    differentiate(op, room, head, begin, t * Tile::kEdge);
    __syncthreads();
    add_weighted(room.ds, 1, Tile::kPitch, room.k, op.dim, dq);
  }
  write_rows(op.dq, begin, op.queries, op.heads, head, op.dim, op.scale, dq);
}

// The op's operands; scratch holds delta and the ranges of the tiles.
template <class Tile, class T = typename Tile::Type>
Backward<T> operands(const AttentionBackward& op, const CudaContext& ctx) {
  using A = Accum<T>;
  const std::int64_t queries = op.q.dim(0), keys = op.k.dim(0);
  static_assert(sizeof(IndexRange) == sizeof(double));
  double* const room =
      ctx.room<double>(op.lse.count() + ceil_div(queries, Tile::kEdge) + ceil_div(keys, Tile::kEdge));
  return {elements<T>(op.q),
          elements<T>(op.k),
          elements<T>(op.v),
          elements<T>(op.d_out),
          elements<std::int32_t>(op.q_index),
          elements<std::int32_t>(op.first_visible),
          elements<std::int32_t>(op.k_index),
          either_output<T>(op.out, op.q.dtype()),
          either_output<T>(op.dq, op.q.dtype()),
          either_output<T>(op.dk, op.q.dtype()),
          either_output<T>(op.dv, op.q.dtype()),
          elements<A>(op.lse),
          reinterpret_cast<A*>(room),
          queue_ranges(op, Tile::kEdge, reinterpret_cast<IndexRange*>(room + op.lse.count()), ctx.stream),
          queries,
          keys,
          op.q.dim(1),
          op.k.dim(1),
          op.q.dim(2),
          op.v.dim(2),
          static_cast<A>(op.scale)};
}

template <class Tile>
void queue_backward(const AttentionBackward& op, const CudaContext& ctx) {
  const auto f = operands<Tile>(op, ctx);
  const std::int64_t bytes = Room<Tile>::bytes(f.dim, f.value_dim);
  const auto queue = [&](auto* kernel, std::int64_t tiles, std::int64_t heads) {
    if (tiles == 0 || heads == 0) return;
    allow_shared(kernel, bytes);
    const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(heads));
    kernel<<<grid, kSide * kSide, static_cast<std::size_t>(bytes), ctx.stream>>>(f);
    FF_CUDA(cudaGetLastError());
  };
  if (op.lse.count() > 0) {
    delta_kernel<<<blocks_for(op.lse.count(), kThreads / 32), kThreads, 0, ctx.stream>>>(f);
    FF_CUDA(cudaGetLastError());
  }
  queue(keys_kernel<Tile>, f.ranges.key_tiles, f.kv_heads);
  queue(queries_kernel<Tile>, f.ranges.query_tiles, f.heads);
}

}  // namespace

void plain_attention(const AttentionBackward& op, const CudaContext& ctx) {
  with_tiling(op.q.dtype(), std::max(op.q.dim(2), op.v.dim(2)),
              [&](auto tiling) { queue_backward<decltype(tiling)>(op, ctx); });
}

}  // namespace fivefold::cuda
