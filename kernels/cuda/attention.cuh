// The forms of attention on CUDA. attention_cuda.cpp chooses one by dtype and head widths.
#pragma once
#include "kernels/cuda/context.cuh"
#include "kernels/ops/attention.h"

namespace fivefold::cuda {

// Any dtype, heads up to 256 wide: multiply-adds in the arithmetic type. The reference for faster forms.
void plain_attention(const AttentionForward& op, const CudaContext& ctx);
void plain_attention(const AttentionBackward& op, const CudaContext& ctx);

}  // namespace fivefold::cuda
