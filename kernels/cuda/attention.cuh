// The forms of attention on CUDA. attention_cuda.cpp chooses one by dtype and head widths.
#pragma once
#include "kernels/cuda/context.cuh"
#include "kernels/ops/attention.h"

namespace fivefold::cuda {

// Any dtype, heads up to 256 wide: multiply-adds in the arithmetic type. The reference for faster forms.
void plain_attention(const AttentionForward& op, const CudaContext& ctx);
void plain_attention(const AttentionBackward& op, const CudaContext& ctx);

// bf16 heads 64, 96, 128 or 256 wide, or 192 for q and k with 128 for v (forward), but 256 (backward), by
// tensor cores. False, and nothing queued, where the operands are others or lie off 16 bytes.
bool mma_attention(const AttentionForward& op, const CudaContext& ctx);
bool mma_attention(const AttentionBackward& op, const CudaContext& ctx);

// The same for heads 64 or 128 wide on Hopper.
bool wgmma_attention(const AttentionForward& op, const CudaContext& ctx);
bool wgmma_attention(const AttentionBackward& op, const CudaContext& ctx);

}  // namespace fivefold::cuda
