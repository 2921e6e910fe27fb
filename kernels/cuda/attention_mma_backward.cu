// Gradients of attention in bf16 by mma.sync, with the probabilities computed again. One kernel owns tiles of
// keys (dk and dv, all query heads of the kv head in order), another tiles of queries (dq): seven products
// where one kernel would need five, but every sum belongs to one warp, so there is one order. Probabilities
// and score gradients stay in registers: a warp has 16 rows of its own side and all columns of the other.
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention_mma.cuh"
#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/tensor_map.cuh"

namespace fivefold::cuda {

namespace {

// Mine: rows that the block owns. Others: rows of a step.
template <int DimOf, int ValueDimOf, int WarpsOf, int OthersOf>
struct Shape {
  static constexpr int kDim = DimOf, kValueDim = ValueDimOf, kWarps = WarpsOf, kThreads = 32 * kWarps,
                       kMine = 16 * kWarps, kOthers = OthersOf;
  static constexpr int kRow = kPitch<kDim>, kValueRow = kPitch<kValueDim>;
  // Elements of shared memory: of the block's own rows, of a stage.
  static constexpr int kOwn = kMine * (kRow + kValueRow), kStage = kOthers * (kRow + kValueRow);
  static constexpr int kBytes = 2 * (kOwn + 2 * kStage);
};

struct Backward {
  const __nv_bfloat16 *q, *k, *v, *d_out;
  void *dq, *dk, *dv;
  RowSums sums;
  MaskIndices mask;
  TilePlan plan;
  int heads, kv_heads;
  float scale;
  bool wide_q, wide_k, wide_v;
};

// A row of Dim and one of ValueDim: keys and values, or queries and their output gradients.
struct RowPair {
  BfRows row, value_row;
};
template <class S>
__device__ RowPair key_rows(const Backward& op, int kv_head) {
  return {head_of(op.k, op.mask.keys, op.kv_heads, kv_head, S::kDim),
          head_of(op.v, op.mask.keys, op.kv_heads, kv_head, S::kValueDim)};
}
template <class S>
__device__ RowPair query_rows(const Backward& op, int head) {
  return {head_of(op.q, op.mask.queries, op.heads, head, S::kDim),
          head_of(op.d_out, op.mask.queries, op.heads, head, S::kValueDim)};
}
template <class S, int Rows>
__device__ __forceinline__ void copy_pair(const RowPair& from, int tile, __nv_bfloat16* to) {
  copy_rows<Rows, S::kDim, S::kThreads>(from.row, tile * Rows, to);
  copy_rows<Rows, S::kValueDim, S::kThreads>(from.value_row, tile * Rows, to + Rows * S::kRow);
}

// dk and dv of a tile of keys. Scores are kept keys down.
template <class S>
__global__ void __launch_bounds__(S::kThreads) keys_kernel(Backward op) {
  extern __shared__ __align__(16) __nv_bfloat16 shared[];
  constexpr int N = S::kOthers / 8;
  __nv_bfloat16* const stages = shared + S::kOwn;
  const int warp = static_cast<int>(threadIdx.x) / 32, kv_head = static_cast<int>(blockIdx.x);
  const int tile = static_cast<int>(blockIdx.y), key = tile * S::kMine + warp * 16;
  const int group = op.heads / op.kv_heads, last_head = (kv_head + 1) * group;
  const float by = op.scale * kLog2E;
  const SeenTiles seen = queries_seen(op.plan, tile);
  const int first = seen.first();
  int t = first, head = first < seen.end() ? kv_head * group : last_head, stage = 0;
  copy_pair<S, S::kMine>(key_rows<S>(op, kv_head), tile, shared);
  if (head < last_head) copy_pair<S, S::kOthers>(query_rows<S>(op, head), t, stages);
  float dk[1][S::kDim / 8][4], dv[1][S::kValueDim / 8][4];
  clear(dk[0]);
  clear(dv[0]);
  wait_copies();
  __syncthreads();
  while (head < last_head) {
    int next = seen.from(t + 1), next_head = head;
    if (next >= seen.end()) next = first, ++next_head;
    if (next_head < last_head)
      copy_pair<S, S::kOthers>(query_rows<S>(op, next_head), next, stages + (stage ^ 1) * S::kStage);
    const __nv_bfloat16 *const q = stages + stage * S::kStage, *const d_out = q + S::kOthers * S::kRow;
    float s[1][N][4], dp[1][N][4];
    multiply_rows<S::kDim>(shared + warp * 16 * S::kRow, q, s);
    if (!all_seen(seen.others[t], seen.mine)) hide_transposed(s[0], op.mask, t * S::kOthers, key);
    const std::int64_t row = static_cast<std::int64_t>(head) * op.sums.pitch + t * S::kOthers + lane_column();
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float2 sum = *reinterpret_cast<const float2*>(op.sums.log2_sum + row + 8 * n);
#pragma unroll
      for (int i = 0; i < 4; ++i) s[0][n][i] = exp2_of(s[0][n][i] * by - (i % 2 ? sum.y : sum.x));
    }
    std::uint32_t packed[1][N / 2][4];
    pack(s[0], packed[0]);
    add_product(packed, d_out, dv);
    multiply_rows<S::kValueDim>(shared + S::kMine * S::kRow + warp * 16 * S::kValueRow, d_out, dp);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float2 delta = *reinterpret_cast<const float2*>(op.sums.delta + row + 8 * n);
#pragma unroll
      for (int i = 0; i < 4; ++i) s[0][n][i] *= dp[0][n][i] - (i % 2 ? delta.y : delta.x);
    }
    pack(s[0], packed[0]);
    add_product(packed, q, dk);
    t = next;
    head = next_head;
    stage ^= 1;
    wait_copies();
    __syncthreads();  // the next stage is there, this one has been used
  }
  const float scale[2] = {op.scale, op.scale};
  scale_rows(dk[0], scale);
  write_fragment(dk[0], op.dk, op.wide_k, key, op.mask.keys, op.kv_heads, kv_head);
  write_fragment(dv[0], op.dv, op.wide_v, key, op.mask.keys, op.kv_heads, kv_head);
}

// dq of a tile of queries.
template <class S>
__global__ void __launch_bounds__(S::kThreads) queries_kernel(Backward op) {
  extern __shared__ __align__(16) __nv_bfloat16 shared[];
  constexpr int N = S::kOthers / 8;
  __nv_bfloat16* const stages = shared + S::kOwn;
  const int warp = static_cast<int>(threadIdx.x) / 32, head = static_cast<int>(blockIdx.x);
  const int tile = op.plan.query_tiles - 1 - static_cast<int>(blockIdx.y), row = tile * S::kMine + warp * 16;
  const RowPair keys = key_rows<S>(op, head / (op.heads / op.kv_heads));
  const float by = op.scale * kLog2E;
  const SeenTiles seen = keys_seen(op.plan, tile);
  int t = seen.first(), stage = 0;
  copy_pair<S, S::kMine>(query_rows<S>(op, head), tile, shared);
  if (t < seen.end()) copy_pair<S, S::kOthers>(keys, t, stages);
  const std::int64_t at = static_cast<std::int64_t>(head) * op.sums.pitch + row + lane_row();
  const float log2_sum[2] = {op.sums.log2_sum[at], op.sums.log2_sum[at + 8]},
              delta[2] = {op.sums.delta[at], op.sums.delta[at + 8]};
  float dq[1][S::kDim / 8][4];
  clear(dq[0]);
  while (t < seen.end()) {
    wait_copies();
    __syncthreads();  // this stage is there, the other has been used
    const int next = seen.from(t + 1);
    if (next < seen.end()) copy_pair<S, S::kOthers>(keys, next, stages + (stage ^ 1) * S::kStage);
    const __nv_bfloat16 *const k = stages + stage * S::kStage, *const v = k + S::kOthers * S::kRow;
    float s[1][N][4], dp[1][N][4];
    multiply_rows<S::kDim>(shared + warp * 16 * S::kRow, k, s);
    if (!all_seen(seen.mine, seen.others[t])) hide(s[0], op.mask, row, t * S::kOthers);
    multiply_rows<S::kValueDim>(shared + S::kMine * S::kRow + warp * 16 * S::kValueRow, v, dp);
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        s[0][n][i] = exp2_of(s[0][n][i] * by - log2_sum[i / 2]) * (dp[0][n][i] - delta[i / 2]);
    std::uint32_t packed[1][N / 2][4];
    pack(s[0], packed[0]);
    add_product(packed, k, dq);
    t = next;
    stage ^= 1;
  }
  const float scale[2] = {op.scale, op.scale};
  scale_rows(dq[0], scale);
  write_fragment(dq[0], op.dq, op.wide_q, row, op.mask.queries, op.heads, head);
}

Backward operands(const AttentionBackward& op) {
  return {elements<__nv_bfloat16>(op.q),
          elements<__nv_bfloat16>(op.k),
          elements<__nv_bfloat16>(op.v),
          elements<__nv_bfloat16>(op.d_out),
          op.dq.raw(),
          op.dk.raw(),
          op.dv.raw(),
          {},
          mask_indices(op),
          {},
          static_cast<int>(op.q.dim(1)),
          static_cast<int>(op.k.dim(1)),
          static_cast<float>(op.scale),
          op.dq.dtype() == DType::f32,
          op.dk.dtype() == DType::f32,
          op.dv.dtype() == DType::f32};
}

template <class S>
void start(void (*kernel)(Backward), const Backward& f, int heads, int tiles, cudaStream_t stream) {
  allow_shared(kernel, S::kBytes);
  const dim3 grid(static_cast<unsigned>(heads), static_cast<unsigned>(tiles));
  kernel<<<grid, S::kThreads, S::kBytes, stream>>>(f);
  FF_CUDA(cudaGetLastError());
}

// K: shape of the kernel that owns keys. Q: of the one that owns queries. False where the device has too
// little shared memory for them.
template <class K, class Q>
bool queue(const AttentionBackward& op, const CudaContext& ctx) {
  if (std::max(K::kBytes, Q::kBytes) > most_shared()) return false;
  const std::int64_t queries = op.q.dim(0), keys = op.k.dim(0), sums = row_sums_bytes(op),
                     plan = plan_bytes(queries, keys, K::kOthers, K::kMine);
  auto* const room = ctx.room<std::byte>(sums + plan + plan_bytes(queries, keys, Q::kMine, Q::kOthers));
  Backward f = operands(op);
  f.sums = queue_row_sums(op, room, ctx.stream);
  f.plan =
      queue_plan(op.q_index, op.first_visible, op.k_index, K::kOthers, K::kMine, room + sums, ctx.stream);
  start<K>(keys_kernel<K>, f, f.kv_heads, f.plan.key_tiles, ctx.stream);
  f.plan = queue_plan(op.q_index, op.first_visible, op.k_index, Q::kMine, Q::kOthers, room + sums + plan,
                      ctx.stream);
  start<Q>(queries_kernel<Q>, f, f.heads, f.plan.query_tiles, ctx.stream);
  return true;
}
// Blocks of 128 rows and steps of 64, or half of both.
template <int Dim, int ValueDim, int StepOfKeys>
bool queue_first(const AttentionBackward& op, const CudaContext& ctx) {
  using Small = Shape<Dim, ValueDim, 4, 32>;
  return queue<Shape<Dim, ValueDim, 8, StepOfKeys>, Shape<Dim, ValueDim, 8, 64>>(op, ctx) ||
         queue<Small, Small>(op, ctx);
}

}  // namespace

bool mma_attention(const AttentionBackward& op, const CudaContext& ctx) {
  if (!tensor_cores_take(op) || !packs_aligned({op.d_out.raw(), op.dq.raw(), op.dk.raw(), op.dv.raw()}))
    return false;
  const std::int64_t dim = op.q.dim(2), value_dim = op.v.dim(2);
  const auto is = [&](std::int64_t d, std::int64_t v) { return dim == d && value_dim == v; };
  if (is(64, 64)) return queue_first<64, 64, 64>(op, ctx);
  if (is(96, 96)) return queue_first<96, 96, 64>(op, ctx);
  if (is(128, 128)) return queue_first<128, 128, 64>(op, ctx);
  if (is(192, 128)) return queue_first<192, 128, 32>(op, ctx);
  return false;
}

}  // namespace fivefold::cuda
