// Optimizer arithmetic: squared sums in a fixed order, the shared factors of a step, and AdamW. Nothing of it
// comes to the host.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/execute.cuh"

namespace fivefold::cuda {

namespace {

constexpr std::int64_t kMostPartials = 2048;

// partial[block] = sum of squares of the packs that are the block's.
template <int N, class T>
__global__ void squares(const T* x, std::int64_t n, double* partial) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  double sum = 0;
  for (std::int64_t p = first; p < n / N; p += stride) {
    const auto pack = load<N>(x + p * N);
#pragma unroll
    for (int l = 0; l < N; ++l) {
      const auto v = static_cast<double>(widen<Accum<T>>(pack.at[l]));
      sum += v * v;
    }
  }
  for (std::int64_t i = n / N * N + first; i < n; i += stride) {
    const auto v = static_cast<double>(widen<Accum<T>>(x[i]));
    sum += v * v;
  }
  sum = join_block(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void add_squares(const double* partial, int count, double* sum) {
  double mine = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
    mine += partial[i];
  mine = join_block(mine);
  if (threadIdx.x == 0) *sum += mine;
}

__global__ void step_control(const double* sums, std::int64_t count, double clip, double* control) {
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) total += sums[i];
  const bool finite = isfinite(total);
  const double norm = sqrt(total), limited = clip / (norm + 1e-6);
  control[StepControl::kNorm] = norm;
  control[StepControl::kFactor] = clip > 0 && limited < 1.0 ? limited : 1.0;
  control[StepControl::kApply] = finite ? 1.0 : 0.0;
  control[StepControl::kStep] += finite ? 1.0 : 0.0;
  control[StepControl::kSkipped] += finite ? 0.0 : 1.0;
}

// T: master and state. C: the copy the model computes in.
template <class T, class C>
struct AdamWElements {
  T *p, *m, *v;
  const T* gradient;
  C* compute;
  const double* control;
  double beta1_f64, beta2_f64;
  T lr, beta1, beta2, eps, decay;
};

template <class T>
struct StepFactors {
  T factor, correction1, correction2;  // correction = 1 / (1 - beta^t)
};

template <int N, class T, class C>
__device__ void adamw_pack(const AdamWElements<T, C>& op, const StepFactors<T>& s, std::int64_t i) {
  auto p = load<N>(op.p + i), m = load<N>(op.m + i), v = load<N>(op.v + i);
  const auto gradient = load<N>(op.gradient + i);
  Pack<C, N> copy;
#pragma unroll
  for (int l = 0; l < N; ++l) {
    const T g = s.factor * gradient.at[l];
    m.at[l] = op.beta1 * m.at[l] + (1 - op.beta1) * g;
    v.at[l] = op.beta2 * v.at[l] + (1 - op.beta2) * g * g;
    const T direction = m.at[l] * s.correction1 / (root_of(v.at[l] * s.correction2) + op.eps);
    p.at[l] -= op.lr * (direction + op.decay * p.at[l]);
    copy.at[l] = narrow<C>(p.at[l]);
  }
  store(op.p + i, p);
  store(op.m + i, m);
  store(op.v + i, v);
  if (op.compute) store(op.compute + i, copy);
}

template <int N, class T, class C>
__global__ void adamw(std::int64_t n, AdamWElements<T, C> op) {
  __shared__ StepFactors<T> shared;
  if (op.control[StepControl::kApply] == 0.0) return;
  if (threadIdx.x == 0) {
    const double t = op.control[StepControl::kStep];
    shared = {static_cast<T>(op.control[StepControl::kFactor]),
              static_cast<T>(1.0 / (1.0 - pow(op.beta1_f64, t))),
              static_cast<T>(1.0 / (1.0 - pow(op.beta2_f64, t)))};
  }
  __syncthreads();
  const StepFactors<T> factors = shared;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t q = first; q < n / N; q += stride) adamw_pack<N>(op, factors, q * N);
  if constexpr (N > 1)
    for (std::int64_t i = n / N * N + first; i < n; i += stride) adamw_pack<1>(op, factors, i);
}

template <class T, class C>
void queue_adamw(const AdamW& op, const CudaContext& ctx) {
  constexpr int N = kPackOf<T>;
  constexpr std::int64_t kBlocks = 1056;  // eight for each multiprocessor: each makes the factors once
  const std::int64_t n = op.master.count();
  if (n == 0) return;
  const AdamWElements<T, C> f{elements<T>(op.master),
                              elements<T>(op.m),
                              elements<T>(op.v),
                              elements<T>(op.gradient),
                              elements<C>(op.compute),
                              elements<double>(op.control),
                              op.beta1,
                              op.beta2,
                              static_cast<T>(op.lr),
                              static_cast<T>(op.beta1),
                              static_cast<T>(op.beta2),
                              static_cast<T>(op.eps),
                              static_cast<T>(op.weight_decay)};
  if (packs_aligned({f.p, f.m, f.v, f.gradient, f.compute}))
    adamw<N><<<blocks_for(n, kThreads * N, kBlocks), kThreads, 0, ctx.stream>>>(n, f);
  else
    adamw<1><<<blocks_for(n, kThreads, kBlocks), kThreads, 0, ctx.stream>>>(n, f);
  FF_CUDA(cudaGetLastError());
}

template <class T>
void with_copy(const AdamW& op, const CudaContext& ctx) {
  if (op.compute && op.compute.dtype() == DType::bf16)
    queue_adamw<T, __nv_bfloat16>(op, ctx);
  else
    queue_adamw<T, T>(op, ctx);
}

}  // namespace

void execute(const SquaredSum& op, const CudaContext& ctx) {
  const std::int64_t n = op.x.count();
  if (n == 0) return;
  with_device_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    constexpr int N = kPackOf<T>;
    const T* const x = elements<T>(op.x);
    const auto blocks = blocks_for(n, kThreads * N * 4, kMostPartials);
    double* const partial = ctx.room<double>(blocks);
    if (packs_aligned({x}))
      squares<N><<<blocks, kThreads, 0, ctx.stream>>>(x, n, partial);
    else
      squares<1><<<blocks, kThreads, 0, ctx.stream>>>(x, n, partial);
    FF_CUDA(cudaGetLastError());
    add_squares<<<1, kThreads, 0, ctx.stream>>>(partial, static_cast<int>(blocks),
                                                elements<double>(op.sums) + op.index);
    FF_CUDA(cudaGetLastError());
  });
}

void execute(const StepControl& op, const CudaContext& ctx) {
  step_control<<<1, 1, 0, ctx.stream>>>(elements<double>(op.sums), op.sums.count(), op.clip,
                                        elements<double>(op.control));
  FF_CUDA(cudaGetLastError());
}

void execute(const AdamW& op, const CudaContext& ctx) {
  op.master.dtype() == DType::f64 ? with_copy<double>(op, ctx) : with_copy<float>(op, ctx);
}

}  // namespace fivefold::cuda
