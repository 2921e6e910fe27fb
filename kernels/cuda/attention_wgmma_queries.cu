// dq on Hopper: a block owns a tile of queries of a head and goes over the tiles of keys that it sees, in
// order.
#include "kernels/cuda/attention_wgmma_backward.cuh"

namespace fivefold::cuda {

namespace {

template <class S>
__device__ __forceinline__ void produce(const WgmmaBackward& op, const BackwardRoom<S>& room,
                                        const SeenTiles& seen, int head, int query_tile) {
  const int kv_head = head / (op.heads / op.kv_heads);
  arrive_for_bytes(room.own_here, S::kOwnBytes + S::kOwnValueBytes);
  copy_tile<S::kOwn, S::kDim>(op.q, head, query_tile * S::kOwn, room.own, room.own_here);
  copy_tile<S::kOwn, S::kValueDim>(op.d_out, head, query_tile * S::kOwn, room.own_values, room.own_here);
  Ring<S::kStages> at;
  for (int t = seen.first(); t < seen.end(); t = seen.from(t + 1), at.advance()) {
    Barrier* const here = room.here + at.stage;
    wait_barrier(room.used + at.stage, at.parity ^ 1);
    arrive_for_bytes(here, S::kStepBytes + S::kStepValueBytes);
    copy_tile<S::kStep, S::kDim>(op.k, kv_head, t * S::kStep, room.step(at.stage), here);
    copy_tile<S::kStep, S::kValueDim>(op.v, kv_head, t * S::kStep, room.step_values(at.stage), here);
  }
}

template <class S>
__device__ __forceinline__ void consume(const WgmmaBackward& op, const BackwardRoom<S>& room,
                                        const SeenTiles& seen, int head, int query_tile) {
  constexpr int N = S::kStep / 8;
  const int group = warpgroup();
  const int row = query_tile * S::kOwn + static_cast<int>(threadIdx.x) / 32 * 16;
  const float by = op.scale * kLog2E;
  const std::int64_t at_row = static_cast<std::int64_t>(head) * op.sums.pitch + row + lane_row();
  const float log2_sum[2] = {op.sums.log2_sum[at_row], op.sums.log2_sum[at_row + 8]},
              delta[2] = {op.sums.delta[at_row], op.sums.delta[at_row + 8]};
  float dq[S::kDim / 8][4];
  clear(dq);
  pin(dq);
  Ring<S::kStages> at, last;
  wait_barrier(room.own_here, 0);
  const int first = seen.first();
#pragma unroll 1
  for (int t = first; t < seen.end(); at.advance()) {
    float s[N][4], dp[N][4];
    std::uint32_t ds[N / 2][4];
    wait_barrier(room.here + at.stage, at.parity);
    queue_rows_product<S::kDim, S::kOwn>(room.own, group * 64, room.step(at.stage), s);
    const bool whole = all_seen(seen.mine, seen.others[t]);
    const int next = seen.from(t + 1);
    if constexpr (S::kAhead) {
      wait_products<1>();
      if (t != first) arrive_warp(room.used + last.stage);
      last = at;
    }
    queue_rows_product<S::kValueDim, S::kOwn>(room.own_values, group * 64, room.step_values(at.stage), dp);
    wait_products<1>();
    pin(s);
    if (!whole) hide(s, op.mask, row, t * S::kStep);
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = exp2_of(s[n][i] * by - log2_sum[i / 2]);
    wait_products<0>();
    pin(dp);
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] *= dp[n][i] - delta[i / 2];
    pack(s, ds);
    queue_weighted(ds, room.step(at.stage), dq);
    if constexpr (!S::kAhead) {
      wait_products<0>();
      pin(dq);
      arrive_warp(room.used + at.stage);
    }
    t = next;
  }
  wait_products<0>();
  pin(dq);
  const float scale[2] = {op.scale, op.scale};
  scale_rows(dq, scale);
  write_fragment(dq, op.dq, op.wide_q, row, op.mask.queries, op.heads, head);
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1) queries_kernel(const __grid_constant__ WgmmaBackward op) {
  extern __shared__ unsigned char shared[];
  const BackwardRoom<S> room(shared);
  if (threadIdx.x == 0) room.init();
  __syncthreads();
  // Later tiles see more keys under a causal mask: first the long ones.
  const int head = static_cast<int>(blockIdx.x),
            query_tile = op.plan.query_tiles - 1 - static_cast<int>(blockIdx.y);
  const SeenTiles seen = keys_seen(op.plan, query_tile);
  if (threadIdx.x < S::kConsumers) {
    take_registers<S::kRegisters>();
    consume<S>(op, room, seen, head, query_tile);
  } else {
    leave_registers<24>();
    if (threadIdx.x == S::kConsumers) produce<S>(op, room, seen, head, query_tile);
  }
}

}  // namespace

template <class S>
void queue_queries(const WgmmaBackward& op, cudaStream_t stream) {
  allow_shared(queries_kernel<S>, S::kBytes);
  const dim3 grid(static_cast<unsigned>(op.heads), static_cast<unsigned>(op.plan.query_tiles));
  queries_kernel<S><<<grid, S::kThreads, S::kBytes, stream>>>(op);
  FF_CUDA(cudaGetLastError());
}

template void queue_queries<Queries64>(const WgmmaBackward&, cudaStream_t);
template void queue_queries<Queries96>(const WgmmaBackward&, cudaStream_t);
template void queue_queries<Queries128>(const WgmmaBackward&, cudaStream_t);
template void queue_queries<Queries192>(const WgmmaBackward&, cudaStream_t);

}  // namespace fivefold::cuda
