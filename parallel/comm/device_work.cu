// The kernels of transfers between ranks that share an address space. Both move bytes only, so they read and
// write 16 bytes at a time wherever the addresses allow it.
#include <cuda_bf16.h>

#include "core/cuda_check.h"
#include "parallel/comm/device_work.h"

namespace fivefold {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 1056;  // 8 for each multiprocessor of a large GPU

cudaStream_t native(Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

__device__ __forceinline__ std::int64_t first_of_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ std::int64_t thread_count() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

// --- copies ---

constexpr std::size_t kPartsOfLaunch = 128;
struct Parts {
  CopyPart at[kPartsOfLaunch];
};

// Bytes [begin, bytes) in units of T, and where that begins for what is left over.
template <class T>
__device__ __forceinline__ std::int64_t copy_units(const CopyPart& part, std::int64_t begin) {
  const std::int64_t end = part.bytes / static_cast<std::int64_t>(sizeof(T));
  const T* const from = reinterpret_cast<const T*>(part.from);
  T* const to = reinterpret_cast<T*>(part.to);
  const std::int64_t step = thread_count();
  std::int64_t i = begin / static_cast<std::int64_t>(sizeof(T)) + first_of_thread();
  for (; i + 3 * step < end; i += 4 * step) {  // four loads before the first store
    T x[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) x[k] = from[i + k * step];
#pragma unroll
    for (int k = 0; k < 4; ++k) to[i + k * step] = x[k];
  }
  for (; i < end; i += step) to[i] = from[i];
  return end * static_cast<std::int64_t>(sizeof(T));
}

__global__ void copy_kernel(const __grid_constant__ Parts parts) {
  const CopyPart part = parts.at[blockIdx.y];
  const auto misfit =
      (reinterpret_cast<std::uintptr_t>(part.to) | reinterpret_cast<std::uintptr_t>(part.from)) % 16;
  std::int64_t done = 0;
  if (misfit == 0) done = copy_units<uint4>(part, done);
  if (misfit % 4 == 0) done = copy_units<std::uint32_t>(part, done);
  copy_units<std::uint8_t>(part, done);
}

void launch_copies(std::span<const CopyPart> chosen, Stream& stream) {
  Parts parts{};
  std::int64_t longest = 1;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    parts.at[i] = chosen[i];
    longest = std::max(longest, chosen[i].bytes);
  }
  const auto count = static_cast<std::int64_t>(chosen.size());
  const auto blocks = std::clamp<std::int64_t>(kMostBlocks / count, 1, ceil_div(longest, kThreads * 16));
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(count));
  copy_kernel<<<grid, kThreads, 0, native(stream)>>>(parts);
  FF_CUDA(cudaGetLastError());
}

// --- sums and maxima ---

struct Operands {
  void* out[kMostDeviceRanks];
  const void* in[kMostDeviceRanks];
  int outs, ins;
};

// How a dtype is added up: see rank_sum.cpp.
template <class T>
struct Arithmetic {
  using Sum = T;
  static __device__ Sum widen(T x) { return x; }
  static __device__ T narrow(Sum x) { return x; }
};
template <>
struct Arithmetic<__nv_bfloat16> {
  using Sum = float;
  static __device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
  static __device__ __nv_bfloat16 narrow(float x) { return __float2bfloat16_rn(x); }
};

struct Add {
  template <class A>
  static __device__ A join(A sum, A x) {
    return sum + x;
  }
  static __device__ std::int32_t join(std::int32_t sum, std::int32_t x) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) + static_cast<std::uint32_t>(x));
  }
};
struct Largest {  // a NaN on either side stays
  template <class A>
  static __device__ A join(A sum, A x) {
    return x > sum || x != x ? x : sum;
  }
};

template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

// Packs [begin, end) of N elements.
template <class T, int N, class Op>
__device__ __forceinline__ void reduce_packs(const Operands& p, std::int64_t begin, std::int64_t end) {
  using M = Arithmetic<T>;
  for (std::int64_t i = begin + first_of_thread(); i < end; i += thread_count()) {
    Pack<T, N> pack = static_cast<const Pack<T, N>*>(p.in[0])[i];
    typename M::Sum sum[N];
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] = M::widen(pack.at[k]);
#pragma unroll 4
    for (int r = 1; r < p.ins; ++r) {
      const Pack<T, N> other = static_cast<const Pack<T, N>*>(p.in[r])[i];
#pragma unroll
      for (int k = 0; k < N; ++k) sum[k] = Op::join(sum[k], M::widen(other.at[k]));
    }
#pragma unroll
    for (int k = 0; k < N; ++k) pack.at[k] = M::narrow(sum[k]);
    for (int r = 0; r < p.outs; ++r) static_cast<Pack<T, N>*>(p.out[r])[i] = pack;
  }
}

template <class T, int N, class Op>
__global__ void reduce_kernel(const __grid_constant__ Operands p, std::int64_t count) {
  reduce_packs<T, N, Op>(p, 0, count / N);
  if constexpr (N > 1) reduce_packs<T, 1, Op>(p, count / N * N, count);
}

bool in_packs(const RankOperands& operands) {
  const auto fits = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
  return std::all_of(operands.out.begin(), operands.out.end(), fits) &&
         std::all_of(operands.in.begin(), operands.in.end(), fits);
}

template <class T, class Op>
void launch_reduce(const RankOperands& operands, std::int64_t count, Stream& stream) {
  constexpr int kPack = static_cast<int>(16 / sizeof(T));
  Operands p{};
  p.outs = static_cast<int>(operands.out.size());
  p.ins = static_cast<int>(operands.in.size());
  std::copy(operands.out.begin(), operands.out.end(), p.out);
  std::copy(operands.in.begin(), operands.in.end(), p.in);
  const bool packs = in_packs(operands);
  const auto blocks =
      std::clamp<std::int64_t>(ceil_div(count, kThreads * (packs ? kPack : 1)), 1, kMostBlocks);
  const auto kernel = packs ? reduce_kernel<T, kPack, Op> : reduce_kernel<T, 1, Op>;
  kernel<<<static_cast<unsigned>(blocks), kThreads, 0, native(stream)>>>(p, count);
  FF_CUDA(cudaGetLastError());
}

template <class T>
void launch_reduce(const RankOperands& operands, std::int64_t count, Reduce op, Stream& stream) {
  if (op == Reduce::sum) return launch_reduce<T, Add>(operands, count, stream);
  launch_reduce<T, Largest>(operands, count, stream);
}

}  // namespace

void copy_on_device(std::span<const CopyPart> parts, Stream& stream) {
  std::vector<CopyPart> needed;
  for (const auto& part : parts)
    if (part.bytes > 0 && part.to != part.from) needed.push_back(part);
  FF_CUDA(cudaSetDevice(stream.device().index));
  for (std::size_t first = 0; first < needed.size(); first += kPartsOfLaunch)
    launch_copies(std::span(needed).subspan(first, std::min(kPartsOfLaunch, needed.size() - first)), stream);
}

void reduce_on_device(const RankOperands& operands, DType dtype, std::int64_t count, Reduce op,
                      Stream& stream) {
  FF_CHECK(operands.in.size() <= kMostDeviceRanks && operands.out.size() <= kMostDeviceRanks, "at most ",
           kMostDeviceRanks, " ranks share GPUs, not ", operands.in.size());
  if (count == 0) return;
  FF_CUDA(cudaSetDevice(stream.device().index));
  if (dtype == DType::f64) return launch_reduce<double>(operands, count, op, stream);
  if (dtype == DType::f32) return launch_reduce<float>(operands, count, op, stream);
  if (dtype == DType::bf16) return launch_reduce<__nv_bfloat16>(operands, count, op, stream);
  FF_CHECK_EQ(dtype, DType::i32, "no sum for this dtype");
  launch_reduce<std::int32_t>(operands, count, op, stream);
}

}  // namespace fivefold
