// Attention output in bf16 on Hopper (Shah et al. 2024). A block stays on its multiprocessor and takes tiles
// of queries of heads one after another: one warp copies ahead, each of the other warpgroups owns 64 rows.
// The scores of the next tile of keys are under way while those of this one become probabilities, and the
// warpgroups take turns at the tensor cores.
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/tensor_map.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace fivefold::cuda {

namespace {

// Groups: warpgroups of 64 queries each. QueryTiles: 2 to copy the next tile of queries while this one is in
// use.
template <int DimOf, int ValueDimOf, int GroupsOf, int KeysOf, int StagesOf, int QueryTilesOf>
struct Shape {
  static constexpr int kDim = DimOf, kValueDim = ValueDimOf, kGroups = GroupsOf, kKeys = KeysOf,
                       kStages = StagesOf, kQueryTiles = QueryTilesOf, kRegisters = kGroups == 2 ? 232 : 160,
                       kProducerRegisters = kGroups == 2 ? 40 : 32;
  static constexpr int kQueries = 64 * kGroups, kThreads = 128 * (kGroups + 1);
  static constexpr int kQueryBytes = kTileBytes<kQueries, kDim>, kKeyBytes = kTileBytes<kKeys, kDim>,
                       kValueBytes = kTileBytes<kKeys, kValueDim>;
  // The tiles start at a multiple of 1024; the barriers lie behind them.
  static constexpr int kTiles = kQueryTiles * kQueryBytes + kStages * (kKeyBytes + kValueBytes),
                       kBytes = kTiles + 1024 + 256;
};

struct Forward {
  CUtensorMap q, k, v;
  void* out;
  float* lse;
  MaskIndices mask;
  TilePlan plan;  // queries in tiles of a warpgroup
  int tiles;      // of a block
  int heads, kv_heads;
  float scale;
  bool wide;
};

// A tile of queries of a head.
struct Work {
  int tile, head;
};
// The n-th piece of this block. Later tiles see more keys under a causal mask, so they come first; blocks
// take pieces to and fro, so that none has the heavier of every round.
__device__ __forceinline__ bool take_work(const Forward& op, int n, Work& work) {
  const int blocks = static_cast<int>(gridDim.x), mine = static_cast<int>(blockIdx.x);
  const int i = n * blocks + (n % 2 ? blocks - 1 - mine : mine);
  work = {op.tiles - 1 - i / op.heads, i % op.heads};
  return i < op.tiles * op.heads;
}

template <class S>
struct Room {
  unsigned char *q, *k, *v;
  Barrier *q_here, *q_used, *k_here, *k_used, *v_here, *v_used;
  __device__ __forceinline__ explicit Room(unsigned char* shared) {
    q = shared + (1024 - shared_of(shared) % 1024) % 1024;
    k = q + S::kQueryTiles * S::kQueryBytes;
    v = k + S::kStages * S::kKeyBytes;
    q_here = reinterpret_cast<Barrier*>(q + S::kTiles);
    q_used = q_here + S::kQueryTiles;
    k_here = q_used + S::kQueryTiles;
    k_used = k_here + S::kStages;
    v_here = k_used + S::kStages;
    v_used = v_here + S::kStages;
  }
  __device__ __forceinline__ void init() const {
    constexpr int kWarps = 4 * S::kGroups;
    for (int s = 0; s < S::kQueryTiles; ++s) {
      init_barrier(q_here + s, 1);
      init_barrier(q_used + s, kWarps);
    }
    for (int s = 0; s < S::kStages; ++s) {
      init_barrier(k_here + s, 1);
      init_barrier(k_used + s, kWarps);
      init_barrier(v_here + s, 1);
      init_barrier(v_used + s, kWarps);
    }
    publish_barriers();
  }
};

// One thread copies everything.
template <class S>
__device__ __forceinline__ void produce(const Forward& op, const Room<S>& room) {
  Ring<S::kStages> at;
  Ring<S::kQueryTiles> at_q;
  Work work;
  for (int n = 0; take_work(op, n, work); ++n, at_q.advance()) {
    const int kv_head = work.head / (op.heads / op.kv_heads);
    const SeenTiles seen = keys_seen(op.plan, work.tile * S::kGroups, S::kGroups);
    wait_barrier(room.q_used + at_q.stage, at_q.parity ^ 1);
    arrive_for_bytes(room.q_here + at_q.stage, S::kQueryBytes);
    copy_tile<S::kQueries, S::kDim>(op.q, work.head, work.tile * S::kQueries,
                                    room.q + at_q.stage * S::kQueryBytes, room.q_here + at_q.stage);
    for (int t = seen.first(); t < seen.end(); t = seen.from(t + 1), at.advance()) {
      wait_barrier(room.k_used + at.stage, at.parity ^ 1);
      arrive_for_bytes(room.k_here + at.stage, S::kKeyBytes);
      copy_tile<S::kKeys, S::kDim>(op.k, kv_head, t * S::kKeys, room.k + at.stage * S::kKeyBytes,
                                   room.k_here + at.stage);
      wait_barrier(room.v_used + at.stage, at.parity ^ 1);
      arrive_for_bytes(room.v_here + at.stage, S::kValueBytes);
      copy_tile<S::kKeys, S::kValueDim>(op.v, kv_head, t * S::kKeys, room.v + at.stage * S::kValueBytes,
                                        room.v_here + at.stage);
    }
  }
}

template <class S>
using Scores = float[S::kKeys / 8][4];
template <class S>
using Packed = std::uint32_t[S::kKeys / 16][4];
template <class S>
using Output = float[S::kValueDim / 8][4];

// Queues s = q k^T for the 64 rows of a warpgroup.
template <class S>
__device__ __forceinline__ void queue_scores(const Room<S>& room, const unsigned char* queries, int stage,
                                             Scores<S>& s) {
  const int row = warpgroup() * 64;
  const auto q = operand(queries, row, S::kQueries), k = operand(room.k + stage * S::kKeyBytes, 0, S::kKeys);
  begin_products();
  wgmma_fresh<0>(s, q, k);
#pragma unroll
  for (int i = 1; i < S::kDim / 16; ++i)
    wgmma<0>(s, columns_on<S::kQueries>(q, i), columns_on<S::kKeys>(k, i));
  end_products();
}
// Queues out += p v.
template <class S>
__device__ __forceinline__ void queue_output(const Room<S>& room, int stage, const Packed<S>& p,
                                             Output<S>& out) {
  const auto v = operand(room.v + stage * S::kValueBytes, 0, S::kKeys);
  pin(out);
  begin_products();
#pragma unroll
  for (int i = 0; i < S::kKeys / 16; ++i) wgmma<1>(out, p[i], rows_on(v, i));
  end_products();
}

// All tiles of keys of one tile of queries, for the 64 rows of a warpgroup.
template <class S>
__device__ __forceinline__ void attend(const Forward& op, const Room<S>& room, const SeenTiles& seen, int row,
                                       const unsigned char* queries, Ring<S::kStages>& at,
                                       RunningSoftmax& softmax, Output<S>& out) {
  const float by = op.scale * kLog2E;
  const int group = warpgroup();
  const TileBounds mine = op.plan.queries[min(row / 64, op.plan.query_tiles - 1)];
  int t = seen.first();
  if (t >= seen.end()) return;
  Packed<S> p;
  float shrink[2];
  {
    Scores<S> s;
    wait_barrier(room.k_here + at.stage, at.parity);
    queue_scores<S>(room, queries, at.stage, s);
    wait_products<0>();
    pin(s);
    arrive_warp(room.k_used + at.stage);
    if (!all_seen(mine, seen.others[t])) hide(s, op.mask, row, t * S::kKeys);
    softmax.step(s, by, shrink);
    pack(s, p);
  }
  for (int next = seen.from(t + 1); next < seen.end();) {
    const Ring<S::kStages> last = at;
    at.advance();
    Scores<S> s;
    wait_barrier(room.k_here + at.stage, at.parity);
    sync_named(1 + group, 256);
    queue_scores<S>(room, queries, at.stage, s);
    wait_barrier(room.v_here + last.stage, last.parity);
    queue_output<S>(room, last.stage, p, out);
    arrive_named(1 + (group + 1) % S::kGroups, 256);
    t = next;
    const bool whole = all_seen(mine, seen.others[t]);
    next = seen.from(t + 1);
    wait_products<1>();
    pin(s);
    arrive_warp(room.k_used + at.stage);
    if (!whole) hide(s, op.mask, row, t * S::kKeys);
    softmax.step(s, by, shrink);
    settle(softmax.sum[0]);  // while the output is under way
    wait_products<0>();
    pin(out);
    arrive_warp(room.v_used + last.stage);
    if (some_shrink(shrink)) scale_rows(out, shrink);
    pack(s, p);
  }
  wait_barrier(room.v_here + at.stage, at.parity);
  queue_output<S>(room, at.stage, p, out);
  wait_products<0>();
  pin(out);
  arrive_warp(room.v_used + at.stage);
  at.advance();
}

template <class S>
__device__ __forceinline__ void consume(const Forward& op, const Room<S>& room) {
  // The first turn is warpgroup 0's.
  if (warpgroup() == S::kGroups - 1) arrive_named(1, 256);
  Ring<S::kStages> at;
  Ring<S::kQueryTiles> at_q;
  Work work;
  for (int n = 0; take_work(op, n, work); ++n, at_q.advance()) {
    const SeenTiles seen = keys_seen(op.plan, work.tile * S::kGroups, S::kGroups);
    const int row = work.tile * S::kQueries + static_cast<int>(threadIdx.x) / 32 * 16;
    Output<S> out;
    RunningSoftmax softmax;
    clear(out);
    wait_barrier(room.q_here + at_q.stage, at_q.parity);
    attend<S>(op, room, seen, row, room.q + at_q.stage * S::kQueryBytes, at, softmax, out);
    arrive_warp(room.q_used + at_q.stage);
    float inverse[2], lse[2];
    softmax.finish(op.scale, inverse, lse);
    scale_rows(out, inverse);
    write_fragment(out, op.out, op.wide, row, op.mask.queries, op.heads, work.head);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i = row + lane_row() + 8 * r;
      if (lane_column() == 0 && i < op.mask.queries)
        op.lse[static_cast<std::int64_t>(i) * op.heads + work.head] = lse[r];
    }
  }
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1) forward_kernel(const __grid_constant__ Forward op) {
  extern __shared__ unsigned char shared[];
  const Room<S> room(shared);
  if (threadIdx.x == 0) room.init();
  __syncthreads();
  if (threadIdx.x < 128 * S::kGroups) {
    take_registers<S::kRegisters>();
    consume<S>(op, room);
  } else {
    leave_registers<S::kProducerRegisters>();
    if (threadIdx.x == 128 * S::kGroups) produce<S>(op, room);
  }
}

template <class S>
void queue(const AttentionForward& op, const CudaContext& ctx) {
  void* const room = ctx.room<std::byte>(plan_bytes(op.q.dim(0), op.k.dim(0), 64, S::kKeys));
  const Forward f{head_rows_map(op.q, S::kQueries),
                  head_rows_map(op.k, S::kKeys),
                  head_rows_map(op.v, S::kKeys),
                  op.out.raw(),
                  elements<float>(op.lse),
                  mask_indices(op),
                  queue_plan(op.q_index, op.first_visible, op.k_index, 64, S::kKeys, room, ctx.stream),
                  static_cast<int>(ceil_div(op.q.dim(0), S::kQueries)),
                  static_cast<int>(op.q.dim(1)),
                  static_cast<int>(op.k.dim(1)),
                  static_cast<float>(op.scale),
                  op.out.dtype() == DType::f32};
  allow_shared(forward_kernel<S>, S::kBytes);
  const std::int64_t pieces = static_cast<std::int64_t>(f.tiles) * f.heads;
  forward_kernel<S><<<blocks_for(pieces, 1, multiprocessors()), S::kThreads, S::kBytes, ctx.stream>>>(f);
  FF_CUDA(cudaGetLastError());
}

}  // namespace

bool wgmma_attention(const AttentionForward& op, const CudaContext& ctx) {
  if (!tensor_cores_take(op) || !has_wgmma()) return false;
  const std::int64_t dim = op.q.dim(2), value_dim = op.v.dim(2);
  // Blocks of 192 queries are ahead where rows see many keys, those of 128 waste less of few.
  const bool few = op.visible_pairs < 1500.0 * static_cast<double>(op.q.dim(0));
  if (dim == 64 && value_dim == 64 && few) return queue<Shape<64, 64, 2, 128, 2, 2>>(op, ctx), true;
  if (dim == 64 && value_dim == 64) return queue<Shape<64, 64, 3, 128, 2, 2>>(op, ctx), true;
  if (dim == 96 && value_dim == 96) return queue<Shape<96, 96, 2, 128, 2, 2>>(op, ctx), true;
  if (dim == 128 && value_dim == 128) return queue<Shape<128, 128, 2, 128, 2, 2>>(op, ctx), true;
  if (dim == 192 && value_dim == 128) return queue<Shape<192, 128, 2, 128, 2, 1>>(op, ctx), true;
  if (dim == 256 && value_dim == 256) return queue<Shape<256, 256, 2, 64, 2, 1>>(op, ctx), true;
  return false;
}

}  // namespace fivefold::cuda
