// What a gradient of attention needs of every query row, one after another for each head, so that a tile
// takes them as they lie: the log-sum-exp in powers of two and delta, the row's sum of out * d_out.
#pragma once
#include "kernels/cuda/device.cuh"
#include "kernels/ops/attention.h"

namespace fivefold::cuda {

// [heads, pitch] each; rows that see nothing and rows beyond the last have log2_sum = +inf, so that all their
// probabilities 2^(s - log2_sum) are 0, and those beyond have delta = 0.
struct RowSums {
  float *log2_sum, *delta;
  int pitch;
};

// Bytes of scratch, a multiple of 256.
std::int64_t row_sums_bytes(const AttentionBackward& op);
// Queues the kernel that fills them at `room`, which is aligned to 256 bytes. bf16, heads of a multiple of 8.
RowSums queue_row_sums(const AttentionBackward& op, void* room, cudaStream_t stream);

}  // namespace fivefold::cuda
