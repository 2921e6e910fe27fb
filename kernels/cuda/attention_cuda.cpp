// Which form of attention runs.
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/execute.cuh"

namespace fivefold::cuda {

void execute(const AttentionForward& op, const CudaContext& ctx) {
  if (wgmma_attention(op, ctx) || mma_attention(op, ctx)) return;
  plain_attention(op, ctx);
}
void execute(const AttentionBackward& op, const CudaContext& ctx) {
  if (wgmma_attention(op, ctx) || mma_attention(op, ctx)) return;
  plain_attention(op, ctx);
}

}  // namespace fivefold::cuda
