// What the kernels share: element types on the device, packs of 16 bytes, loops over elements, sums of a
// block.
#pragma once
#include <cuda_bf16.h>

#include "core/cuda_check.h"
#include "core/tensor.h"
#include "kernels/cuda/context.cuh"

namespace fivefold::cuda {

// The device's type of a storage type, and the arithmetic type of that: double for double, else float.
template <class T>
using OnDevice = std::conditional_t<std::is_same_v<T, bf16>, __nv_bfloat16, T>;
template <class T>
using Accum = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Calls f(T{}) with the device's type of a floating dtype.
template <class F>
void with_device_float(DType dtype, F&& f) {
  with_float(dtype, [&](auto zero) { f(OnDevice<decltype(zero)>{}); });
}

// Elements of a tensor, null without one.
template <class T>
T* elements(const Tensor& t) {
  return t ? reinterpret_cast<T*>(t.raw()) : nullptr;
}

template <class A, class T>
__device__ __forceinline__ A widen(T x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return static_cast<A>(__bfloat162float(x));
  else
    return static_cast<A>(x);
}
template <class T, class A>
__device__ __forceinline__ T narrow(A x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

// x rounded to T, as a number of the arithmetic type: a rounding point.
template <class T, class A>
__device__ __forceinline__ A rounded(A x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return widen<A>(narrow<T>(x));
  else
    return x;
}

template <class A>
__device__ __forceinline__ A infinity() {
  return static_cast<A>(INFINITY);
}
__device__ __forceinline__ float exp_of(float x) { return expf(x); }
__device__ __forceinline__ double exp_of(double x) { return exp(x); }
__device__ __forceinline__ float log_of(float x) { return logf(x); }
__device__ __forceinline__ double log_of(double x) { return log(x); }
__device__ __forceinline__ float root_of(float x) { return sqrtf(x); }
__device__ __forceinline__ double root_of(double x) { return sqrt(x); }

// N neighbouring elements that are read and written in accesses of up to 16 bytes.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T at[N];
};
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load(const T* x) {
  return *reinterpret_cast<const Pack<T, N>*>(x);
}
template <class T, int N>
__device__ __forceinline__ void store(T* x, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(x) = pack;
}
template <class T>
constexpr int kPackOf = static_cast<int>(16 / sizeof(T));

// True where all of these (or null) start at a multiple of 16 bytes.
inline bool packs_aligned(std::initializer_list<const void*> pointers) {
  for (const auto* p : pointers)
    if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) return false;
  return true;
}

inline unsigned blocks_for(std::int64_t work, std::int64_t of_block, std::int64_t most = 1 << 16) {
  return static_cast<unsigned>(std::clamp<std::int64_t>(ceil_div(work, of_block), 1, most));
}

// Lets a kernel have more shared memory than the usual 48 KiB.
template <class Kernel>
void allow_shared(Kernel* kernel, std::int64_t bytes) {
  FF_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
}

constexpr int kThreads = 256;

template <int N, class F>
__global__ void for_each_kernel(std::int64_t n, F f) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, packs = n / N;
  for (std::int64_t p = first; p < packs; p += stride) f.template run<N>(p * N);
  if constexpr (N > 1)
    for (std::int64_t i = packs * N + first; i < n; i += stride) f.template run<1>(i);
}

// Queues f.run<N>(i) for the elements [i, i + N) of all packs of n elements; N is 1 unless `packed`.
template <int N, class F>
void for_each(std::int64_t n, bool packed, const F& f, const CudaContext& ctx) {
  if (n == 0) return;
  if (packed)
    for_each_kernel<N><<<blocks_for(n, kThreads * N), kThreads, 0, ctx.stream>>>(n, f);
  else
    for_each_kernel<1><<<blocks_for(n, kThreads), kThreads, 0, ctx.stream>>>(n, f);
  FF_CUDA(cudaGetLastError());
}

struct Sum {
  template <class A>
  __device__ A operator()(A a, A b) const {
    return a + b;
  }
};
struct Greatest {
  template <class A>
  __device__ A operator()(A a, A b) const {
    return a > b ? a : b;
  }
};

// Over `Width` neighbouring lanes; every lane gets the result.
template <int Width = 32, class A, class Join = Sum>
__device__ __forceinline__ A join_lanes(A x, Join join = {}) {
#pragma unroll
  for (int step = Width / 2; step > 0; step /= 2) x = join(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}

// Over the block (whole warps), in one fixed order; every thread gets the result. All threads call it.
template <class A, class Join = Sum>
__device__ A join_block(A x, Join join = {}) {
  __shared__ A of_warp[32];
  const int warps = static_cast<int>(blockDim.x) / 32, warp = static_cast<int>(threadIdx.x) / 32;
  x = join_lanes(x, join);
  __syncthreads();  // the last call's results have been read
  if (threadIdx.x % 32 == 0) of_warp[warp] = x;
  __syncthreads();
  x = of_warp[0];
  for (int w = 1; w < warps; ++w) x = join(x, of_warp[w]);
  return x;
}

}  // namespace fivefold::cuda
