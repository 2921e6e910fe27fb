// dk and dv on Hopper: a block owns a tile of keys of a kv head, and goes over all its query heads and the
// tiles of queries that see it, in order. Scores are kept keys down, so that probabilities and score
// gradients are left operands of dv and dk as they lie in registers.
#include "kernels/cuda/attention_wgmma_backward.cuh"

namespace fivefold::cuda {

namespace {

// Steps of a block: the seen tiles of queries of each head of the group.
struct Steps {
  SeenTiles seen;
  int head, last_head, tile;
  __device__ __forceinline__ Steps(const WgmmaBackward& op, int kv_head, int key_tile)
      : seen(queries_seen(op.plan, key_tile)),
        head(kv_head * (op.heads / op.kv_heads)),
        last_head(head + op.heads / op.kv_heads),
        tile(seen.first()) {
    if (tile >= seen.end()) head = last_head;
  }
  __device__ __forceinline__ bool more() const { return head < last_head; }
  __device__ __forceinline__ void advance() {
    tile = seen.from(tile + 1);
    if (tile < seen.end()) return;
    tile = seen.first();
    ++head;
  }
};

template <class S>
__device__ __forceinline__ float* sums_of(const BackwardRoom<S>& room, int stage) {
  return reinterpret_cast<float*>(room.sums + 2 * stage * S::kSumBytes);
}

template <class S>
__device__ __forceinline__ void produce(const WgmmaBackward& op, const BackwardRoom<S>& room, Steps steps,
                                        int kv_head, int key_tile) {
  if (!steps.more()) return;
  arrive_for_bytes(room.own_here, S::kOwnBytes + S::kOwnValueBytes);
  copy_tile<S::kOwn, S::kDim>(op.k, kv_head, key_tile * S::kOwn, room.own, room.own_here);
  copy_tile<S::kOwn, S::kValueDim>(op.v, kv_head, key_tile * S::kOwn, room.own_values, room.own_here);
  for (Ring<S::kStages> at; steps.more(); steps.advance(), at.advance()) {
    Barrier* const here = room.here + at.stage;
    wait_barrier(room.used + at.stage, at.parity ^ 1);
    arrive_for_bytes(here, S::kStepBytes + S::kStepValueBytes + 2 * S::kSumBytes);
    const int row = steps.tile * S::kStep;
    copy_tile<S::kStep, S::kDim>(op.q, steps.head, row, room.step(at.stage), here);
    copy_tile<S::kStep, S::kValueDim>(op.d_out, steps.head, row, room.step_values(at.stage), here);
    const std::int64_t from = static_cast<std::int64_t>(steps.head) * op.sums.pitch + row;
    copy_bytes<S::kSumBytes>(op.sums.log2_sum + from, sums_of(room, at.stage), here);
    copy_bytes<S::kSumBytes>(op.sums.delta + from, sums_of(room, at.stage) + S::kStep, here);
  }
}

template <class S>
__device__ __forceinline__ void consume(const WgmmaBackward& op, const BackwardRoom<S>& room, Steps steps,
                                        int kv_head, int key_tile) {
  constexpr int N = S::kStep / 8;
  const int group = warpgroup();
  const int key = key_tile * S::kOwn + static_cast<int>(threadIdx.x) / 32 * 16;
  const float by = op.scale * kLog2E;
  float dk[S::kDim / 8][4], dv[S::kValueDim / 8][4];
  clear(dk);
  clear(dv);
  pin(dk);
  pin(dv);
  Ring<S::kStages> at, last;
  if (steps.more()) wait_barrier(room.own_here, 0);
#pragma unroll 1
  for (bool first = true; steps.more(); steps.advance(), at.advance(), first = false) {
    const float *const log2_sum = sums_of(room, at.stage) + lane_column(), *const delta = log2_sum + S::kStep;
    float s[N][4], dp[N][4];
    std::uint32_t p[N / 2][4], ds[N / 2][4];
    wait_barrier(room.here + at.stage, at.parity);
    queue_rows_product<S::kDim, S::kOwn>(room.own, group * 64, room.step(at.stage), s);
    const bool whole = all_seen(steps.seen.others[steps.tile], steps.seen.mine);
    if constexpr (S::kAhead) {
      wait_products<1>();
      if (!first) arrive_warp(room.used + last.stage);
      last = at;
    }
    queue_rows_product<S::kValueDim, S::kOwn>(room.own_values, group * 64, room.step_values(at.stage), dp);
    wait_products<1>();
    pin(s);
    if (!whole) hide_transposed(s, op.mask, steps.tile * S::kStep, key);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float2 sum = *reinterpret_cast<const float2*>(log2_sum + 8 * n);
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = exp2_of(s[n][i] * by - (i % 2 ? sum.y : sum.x));
    }
    pack(s, p);
    if constexpr (!S::kAhead) queue_weighted(p, room.step_values(at.stage), dv);
    wait_products<S::kAhead ? 0 : 1>();
    pin(dp);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float2 sum = *reinterpret_cast<const float2*>(delta + 8 * n);
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] *= dp[n][i] - (i % 2 ? sum.y : sum.x);
    }
    pack(s, ds);
    if constexpr (S::kAhead) queue_weighted(p, room.step_values(at.stage), dv);
    queue_weighted(ds, room.step(at.stage), dk);
    if constexpr (!S::kAhead) {
      wait_products<0>();
      pin(dv);
      pin(dk);
      arrive_warp(room.used + at.stage);
    }
  }
  wait_products<0>();
  pin(dv);
  pin(dk);
  const float scale[2] = {op.scale, op.scale};
  scale_rows(dk, scale);
  write_fragment(dk, op.dk, op.wide_k, key, op.mask.keys, op.kv_heads, kv_head);
  write_fragment(dv, op.dv, op.wide_v, key, op.mask.keys, op.kv_heads, kv_head);
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1) keys_kernel(const __grid_constant__ WgmmaBackward op) {
  extern __shared__ unsigned char shared[];
  const BackwardRoom<S> room(shared);
  if (threadIdx.x == 0) room.init();
  __syncthreads();
  // Earlier tiles are seen by more queries under a causal mask: first the long ones.
  const int kv_head = static_cast<int>(blockIdx.x), key_tile = static_cast<int>(blockIdx.y);
  const Steps steps(op, kv_head, key_tile);
  if (threadIdx.x < S::kConsumers) {
    take_registers<S::kRegisters>();
    consume<S>(op, room, steps, kv_head, key_tile);
  } else {
    leave_registers<24>();
    if (threadIdx.x == S::kConsumers) produce<S>(op, room, steps, kv_head, key_tile);
  }
}

}  // namespace

template <class S>
void queue_keys(const WgmmaBackward& op, cudaStream_t stream) {
  allow_shared(keys_kernel<S>, S::kBytes);
  const dim3 grid(static_cast<unsigned>(op.kv_heads), static_cast<unsigned>(op.plan.key_tiles));
  keys_kernel<S><<<grid, S::kThreads, S::kBytes, stream>>>(op);
  FF_CUDA(cudaGetLastError());
}

template void queue_keys<Keys64>(const WgmmaBackward&, cudaStream_t);
template void queue_keys<Keys96>(const WgmmaBackward&, cudaStream_t);
template void queue_keys<Keys128>(const WgmmaBackward&, cudaStream_t);
template void queue_keys<Keys192>(const WgmmaBackward&, cudaStream_t);

}  // namespace fivefold::cuda
