// Attention output in bf16 by mma.sync (Dao 2023): a block is a head and a tile of queries, a warp has whole
// rows of it. Keys and values come in two stages, so that a copy runs behind each product.
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention_mma.cuh"
#include "kernels/cuda/tensor_map.cuh"

namespace fivefold::cuda {

namespace {

template <int DimOf, int ValueDimOf, int BlocksOfWarp, int WarpsOf, int KeysOf>
struct Shape {
  static constexpr int kDim = DimOf, kValueDim = ValueDimOf, kM = BlocksOfWarp, kWarps = WarpsOf,
                       kThreads = 32 * kWarps, kQueries = 16 * kM * kWarps, kKeys = KeysOf;
  // Elements of shared memory: the queries; keys and values of a stage.
  static constexpr int kQuery = kQueries * kPitch<kDim>, kKey = kKeys * kPitch<kDim>,
                       kStage = kKey + kKeys * kPitch<kValueDim>;
  static constexpr int kBytes = 2 * (kQuery + 2 * kStage);
};

struct Forward {
  const __nv_bfloat16 *q, *k, *v;
  void* out;
  float* lse;
  MaskIndices mask;
  TilePlan plan;
  int heads, kv_heads;
  float scale;
  bool wide;
};

template <class S>
__device__ __forceinline__ void copy_stage(const BfRows& k, const BfRows& v, int tile, __nv_bfloat16* to) {
  copy_rows<S::kKeys, S::kDim, S::kThreads>(k, tile * S::kKeys, to);
  copy_rows<S::kKeys, S::kValueDim, S::kThreads>(v, tile * S::kKeys, to + S::kKey);
}

template <class S>
__global__ void __launch_bounds__(S::kThreads) forward_kernel(Forward op) {
  extern __shared__ __align__(16) __nv_bfloat16 shared[];
  __nv_bfloat16* const stages = shared + S::kQuery;
  const int warp = static_cast<int>(threadIdx.x) / 32, head = static_cast<int>(blockIdx.x);
  // Later tiles see more keys under a causal mask: first the long ones.
  const int tile = op.plan.query_tiles - 1 - static_cast<int>(blockIdx.y);
  const int kv_head = head / (op.heads / op.kv_heads), row = tile * S::kQueries + warp * 16 * S::kM;
  const BfRows q = head_of(op.q, op.mask.queries, op.heads, head, S::kDim),
               k = head_of(op.k, op.mask.keys, op.kv_heads, kv_head, S::kDim),
               v = head_of(op.v, op.mask.keys, op.kv_heads, kv_head, S::kValueDim);
  const float by = op.scale * kLog2E;
  const SeenTiles seen = keys_seen(op.plan, tile);
  int t = seen.first(), stage = 0;
  copy_rows<S::kQueries, S::kDim, S::kThreads>(q, tile * S::kQueries, shared);
  if (t < seen.end()) copy_stage<S>(k, v, t, stages);
  float out[S::kM][S::kValueDim / 8][4];
  RunningSoftmax softmax[S::kM];
#pragma unroll
  for (int m = 0; m < S::kM; ++m) clear(out[m]);
  while (t < seen.end()) {
    wait_copies();
    __syncthreads();  // this stage is there, the other has been used
    const int next = seen.from(t + 1);
    if (next < seen.end()) copy_stage<S>(k, v, next, stages + (stage ^ 1) * S::kStage);
    const __nv_bfloat16* const keys = stages + stage * S::kStage;
    float s[S::kM][S::kKeys / 8][4];
    multiply_rows<S::kDim>(shared + warp * 16 * S::kM * kPitch<S::kDim>, keys, s);
    if (!all_seen(seen.mine, seen.others[t]))
#pragma unroll
      for (int m = 0; m < S::kM; ++m) hide(s[m], op.mask, row + 16 * m, t * S::kKeys);
    std::uint32_t p[S::kM][S::kKeys / 16][4];
#pragma unroll
    for (int m = 0; m < S::kM; ++m) {
      float shrink[2];
      softmax[m].step(s[m], by, shrink);
      scale_rows(out[m], shrink);
      pack(s[m], p[m]);
    }
    add_product(p, keys + S::kKey, out);
    t = next;
    stage ^= 1;
  }
#pragma unroll
  for (int m = 0; m < S::kM; ++m) {
    float inverse[2], lse[2];
    softmax[m].finish(op.scale, inverse, lse);
    scale_rows(out[m], inverse);
    write_fragment(out[m], op.out, op.wide, row + 16 * m, op.mask.queries, op.heads, head);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i = row + 16 * m + lane_row() + 8 * r;
      if (lane_column() == 0 && i < op.mask.queries)
        op.lse[static_cast<std::int64_t>(i) * op.heads + head] = lse[r];
    }
  }
}

// False where the device has too little shared memory for the shape.
template <class S>
bool queue(const AttentionForward& op, const CudaContext& ctx) {
  if (S::kBytes > most_shared()) return false;
  const std::int64_t queries = op.q.dim(0), keys = op.k.dim(0);
  void* const room = ctx.room<std::byte>(plan_bytes(queries, keys, S::kQueries, S::kKeys));
  const Forward f{
      elements<__nv_bfloat16>(op.q),
      elements<__nv_bfloat16>(op.k),
      elements<__nv_bfloat16>(op.v),
      op.out.raw(),
      elements<float>(op.lse),
      mask_indices(op),
      queue_plan(op.q_index, op.first_visible, op.k_index, S::kQueries, S::kKeys, room, ctx.stream),
      static_cast<int>(op.q.dim(1)),
      static_cast<int>(op.k.dim(1)),
      static_cast<float>(op.scale),
      op.out.dtype() == DType::f32};
  allow_shared(forward_kernel<S>, S::kBytes);
  const dim3 grid(static_cast<unsigned>(f.heads), static_cast<unsigned>(f.plan.query_tiles));
  forward_kernel<S><<<grid, S::kThreads, S::kBytes, ctx.stream>>>(f);
  FF_CUDA(cudaGetLastError());
  return true;
}
// The first that fits.
template <class... Shapes>
bool queue_first(const AttentionForward& op, const CudaContext& ctx) {
  return (queue<Shapes>(op, ctx) || ...);
}

}  // namespace

bool mma_attention(const AttentionForward& op, const CudaContext& ctx) {
  if (!tensor_cores_take(op)) return false;
  const std::int64_t dim = op.q.dim(2), value_dim = op.v.dim(2);
  const auto is = [&](std::int64_t d, std::int64_t v) { return dim == d && value_dim == v; };
  if (is(64, 64)) return queue_first<Shape<64, 64, 2, 4, 64>>(op, ctx);
  if (is(96, 96)) return queue_first<Shape<96, 96, 2, 4, 64>>(op, ctx);
  if (is(128, 128)) return queue_first<Shape<128, 128, 2, 4, 64>, Shape<128, 128, 2, 4, 32>>(op, ctx);
  if (is(192, 128)) return queue_first<Shape<192, 128, 1, 8, 64>, Shape<192, 128, 1, 8, 32>>(op, ctx);
  if (is(256, 256)) return queue_first<Shape<256, 256, 1, 8, 64>, Shape<256, 256, 1, 4, 16>>(op, ctx);
  return false;
}

}  // namespace fivefold::cuda
