// The two kernels of the gradients of attention on Hopper, see attention_wgmma_backward.cu.
#pragma once
#include "kernels/cuda/attention_operands.cuh"
#include "kernels/cuda/attention_plan.cuh"
#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/tensor_map.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace fivefold::cuda {

struct WgmmaBackward {
  CUtensorMap q, k, v, d_out;  // for tiles of the kernel
  void *dq, *dk, *dv;
  RowSums sums;
  MaskIndices mask;
  TilePlan plan;
  int heads, kv_heads;
  float scale;
  bool wide_q, wide_k, wide_v;
};

// A block owns 128 rows of one side, keys or queries, 64 a warpgroup, and takes StepRows rows of the other
// side a step. Dim: width of q and k. ValueDim: of v and d_out.
template <int Dim, int ValueDim, int StepRows, int Stages>
struct BackwardShape {
  static constexpr int kDim = Dim, kValueDim = ValueDim, kOwn = 128, kStep = StepRows, kStages = Stages;
  // Whether products queue up rather than wait for each other: scores behind the last step's products, and dk
  // behind dv. Worth it where products are short; otherwise it keeps stages from being filled again.
  static constexpr bool kAhead = kDim == 64;
  static constexpr int kConsumers = 2 * 128, kThreads = kConsumers + 128, kRegisters = 240;
  static constexpr int kOwnBytes = kTileBytes<kOwn, kDim>, kOwnValueBytes = kTileBytes<kOwn, kValueDim>,
                       kStepBytes = kTileBytes<kStep, kDim>, kStepValueBytes = kTileBytes<kStep, kValueDim>,
                       kSumBytes = kStep * 4;
  // The tiles, aligned to 1024 bytes; the barriers; two sums of the rows of each stage.
  static constexpr int kTiles = kOwnBytes + kOwnValueBytes + kStages * (kStepBytes + kStepValueBytes),
                       kBarriers = 256, kBytes = 1024 + kTiles + kBarriers + 2 * kStages * kSumBytes;
};

// dk and dv: blocks own keys. dq: blocks own queries.
template <class S>
void queue_keys(const WgmmaBackward& op, cudaStream_t stream);
template <class S>
void queue_queries(const WgmmaBackward& op, cudaStream_t stream);

using Keys64 = BackwardShape<64, 64, 128, 2>;
using Keys96 = BackwardShape<96, 96, 64, 3>;
using Keys128 = BackwardShape<128, 128, 64, 3>;
using Keys192 = BackwardShape<192, 128, 32, 4>;
using Queries64 = BackwardShape<64, 64, 128, 3>;
using Queries96 = BackwardShape<96, 96, 128, 2>;
using Queries128 = BackwardShape<128, 128, 128, 2>;
using Queries192 = BackwardShape<192, 128, 64, 3>;

// Shared memory of a block: its own two tiles, two tiles and a barrier pair a stage.
template <class S>
struct BackwardRoom {
  unsigned char *own, *own_values, *steps, *sums;
  Barrier *own_here, *here, *used;
  __device__ __forceinline__ explicit BackwardRoom(unsigned char* shared) {
    own = shared + (1024 - shared_of(shared) % 1024) % 1024;
    own_values = own + S::kOwnBytes;
    steps = own_values + S::kOwnValueBytes;
    own_here = reinterpret_cast<Barrier*>(own + S::kTiles);
    here = own_here + 1;
    used = here + S::kStages;
    sums = own + S::kTiles + S::kBarriers;
  }
  __device__ __forceinline__ unsigned char* step(int stage) const {
    return steps + stage * (S::kStepBytes + S::kStepValueBytes);
  }
  __device__ __forceinline__ unsigned char* step_values(int stage) const {
    return step(stage) + S::kStepBytes;
  }
  __device__ __forceinline__ void init() const {
    init_barrier(own_here, 1);
    for (int s = 0; s < S::kStages; ++s) {
      init_barrier(here + s, 1);
      init_barrier(used + s, S::kConsumers / 32);
    }
    publish_barriers();
  }
};

// Queues s = a b^T over Width for rows from `row` of a tile a of RowsA and all 8 N rows of b.
template <int Width, int RowsA, int N>
__device__ __forceinline__ void queue_rows_product(const unsigned char* a, int row, const unsigned char* b,
                                                   float (&s)[N][4]) {
  const auto left = operand(a, row, RowsA), right = operand(b, 0, 8 * N);
  begin_products();
  wgmma_fresh<0>(s, left, right);
#pragma unroll
  for (int i = 1; i < Width / 16; ++i) wgmma<0>(s, columns_on<RowsA>(left, i), columns_on<8 * N>(right, i));
  end_products();
}
// Queues sum += p b for the 16 K rows of tile b.
template <int K, int N>
__device__ __forceinline__ void queue_weighted(const std::uint32_t (&p)[K][4], const unsigned char* b,
                                               float (&sum)[N][4]) {
  const auto right = operand(b, 0, 16 * K);
  pin(sum);
  begin_products();
#pragma unroll
  for (int i = 0; i < K; ++i) wgmma<1>(sum, p[i], rows_on(right, i));
  end_products();
}

}  // namespace fivefold::cuda
