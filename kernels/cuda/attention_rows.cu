// Sums of query rows for the gradients, eight lanes a row of a head.
#include "kernels/cuda/attention_fragments.cuh"
#include "kernels/cuda/attention_rows.cuh"

namespace fivefold::cuda {

namespace {

constexpr int kRowUnit = 128;  // whole tiles of queries
constexpr int kLanes = 8;

template <class Out>
__global__ void row_sums_kernel(const Out* out, const __nv_bfloat16* d_out, const float* lse, int queries,
                                int heads, int width, RowSums to) {
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int row = static_cast<int>(at / heads), head = static_cast<int>(at % heads);
  float sum = 0;
  if (row < queries)
    for (int i = lane * 8; i < width; i += kLanes * 8) {
      const auto a = load<8>(out + at * width + i);
      const auto b = load<8>(d_out + at * width + i);
#pragma unroll
      for (int c = 0; c < 8; ++c) sum += widen<float>(a.at[c]) * widen<float>(b.at[c]);
    }
  sum = join_lanes<kLanes>(sum);
  if (lane != 0 || row >= to.pitch) return;
  const float l = row < queries ? lse[at] : -INFINITY;
  const std::int64_t place = static_cast<std::int64_t>(head) * to.pitch + row;
  to.log2_sum[place] = l == -INFINITY ? INFINITY : l * kLog2E;
  to.delta[place] = sum;
}

std::int64_t row_pitch(const AttentionBackward& op) { return round_up(op.q.dim(0), kRowUnit); }

}  // namespace

std::int64_t row_sums_bytes(const AttentionBackward& op) {
  return 2 * row_pitch(op) * op.q.dim(1) * static_cast<std::int64_t>(sizeof(float));
}

RowSums queue_row_sums(const AttentionBackward& op, void* room, cudaStream_t stream) {
  const std::int64_t pitch = row_pitch(op), heads = op.q.dim(1);
  const RowSums to{static_cast<float*>(room), static_cast<float*>(room) + pitch * heads,
                   static_cast<int>(pitch)};
  const unsigned blocks = blocks_for(pitch * heads * kLanes, kThreads, INT32_MAX);
  const auto start = [&](auto* out) {
    row_sums_kernel<<<blocks, kThreads, 0, stream>>>(
        out, elements<__nv_bfloat16>(op.d_out), elements<float>(op.lse), static_cast<int>(op.q.dim(0)),
        static_cast<int>(heads), static_cast<int>(op.v.dim(2)), to);
  };
  if (op.out.dtype() == DType::f32)
    start(elements<float>(op.out));
  else
    start(elements<__nv_bfloat16>(op.out));
  FF_CUDA(cudaGetLastError());
  return to;
}

}  // namespace fivefold::cuda
