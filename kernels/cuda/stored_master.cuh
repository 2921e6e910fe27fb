// The forms of StoredMaster on the device, as a kernel sees them: number(i) gives the masters of N elements
// from i on, put(i, p) stores all that belongs to them.
#pragma once
#include "kernels/cuda/device.cuh"
#include "kernels/ops/optim.h"

namespace fivefold::cuda {

// N elements from `x` on, which is at a multiple of the pack's size if `packed`.
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_any(const T* x, bool packed) {
  if (packed) return load<N>(x);
  Pack<T, N> pack;
#pragma unroll
  for (int l = 0; l < N; ++l) pack.at[l] = x[l];
  return pack;
}
template <int N, class T>
__device__ __forceinline__ void store_any(T* x, const Pack<T, N>& pack, bool packed) {
  if (packed) return store(x, pack);
#pragma unroll
  for (int l = 0; l < N; ++l) x[l] = pack.at[l];
}

// Like load_any, as numbers of the arithmetic type A; and the way back, rounded to nearest even.
template <class A, int N, class T>
__device__ __forceinline__ Pack<A, N> load_as(const T* x, bool packed) {
  const auto stored = load_any<N>(x, packed);
  Pack<A, N> out;
#pragma unroll
  for (int l = 0; l < N; ++l) out.at[l] = widen<A>(stored.at[l]);
  return out;
}
template <class A, int N, class T>
__device__ __forceinline__ void store_as(T* x, const Pack<A, N>& pack, bool packed) {
  Pack<T, N> out;
#pragma unroll
  for (int l = 0; l < N; ++l) out.at[l] = narrow<T>(pack.at[l]);
  store_any(x, out, packed);
}

// Bits of split() of core/split_f32.h: the bf16 in the upper half, the remainder in the lower one.
__device__ __forceinline__ std::uint32_t split_bits(float x) {
  auto bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) bits = 0x7fc00000u;
  return ((bits + 0x8000u) & 0xffff0000u) | (bits & 0xffffu);
}
__device__ __forceinline__ float join_bits(std::uint16_t upper, std::int16_t remainder) {
  return __uint_as_float((static_cast<std::uint32_t>(upper) << 16) +
                         static_cast<std::uint32_t>(static_cast<std::int32_t>(remainder)));
}

// Weights of type T, a bf16 nearest to its number with ties away from zero.
template <class T, int N, class A>
__device__ __forceinline__ void store_nearest(T* x, const Pack<A, N>& p, bool packed) {
  Pack<T, N> out;
#pragma unroll
  for (int l = 0; l < N; ++l)
    if constexpr (std::is_same_v<T, A>)
      out.at[l] = p.at[l];
    else
      out.at[l] =
          __ushort_as_bfloat16(static_cast<unsigned short>(split_bits(static_cast<float>(p.at[l])) >> 16));
  store_any(x, out, packed);
}

// The pointers of a weight, as a launch's table holds them.
struct WeightPointers {
  void *master, *copy, *remainder;

  explicit WeightPointers(const StoredMaster& w)
      : master(elements<void>(w.master)),
        copy(elements<void>(w.copy)),
        remainder(elements<void>(w.remainder)) {}
  WeightPointers() = default;
};

template <class T>
struct LoneMaster {
  using Number = Accum<T>;
  T* master;
  __device__ explicit LoneMaster(const WeightPointers& w) : master(static_cast<T*>(w.master)) {}
  template <int N>
  __device__ Pack<Number, N> number(std::int64_t i, bool packed) const {
    return load_as<Number, N>(master + i, packed);
  }
  template <int N>
  __device__ void put(std::int64_t i, const Pack<Number, N>& p, bool packed) const {
    store_nearest(master + i, p, packed);
  }
};

// C: of the copy, the master's or bf16.
template <class T, class C>
struct CopiedMaster {
  using Number = T;
  T* master;
  C* copy;
  __device__ explicit CopiedMaster(const WeightPointers& w)
      : master(static_cast<T*>(w.master)), copy(static_cast<C*>(w.copy)) {}
  template <int N>
  __device__ Pack<T, N> number(std::int64_t i, bool packed) const {
    return load_any<N>(master + i, packed);
  }
  template <int N>
  __device__ void put(std::int64_t i, const Pack<T, N>& p, bool packed) const {
    store_any(master + i, p, packed);
    store_nearest(copy + i, p, packed);
  }
};

struct SplitMaster {
  using Number = float;
  std::uint16_t* copy;
  std::int16_t* remainder;
  __device__ explicit SplitMaster(const WeightPointers& w)
      : copy(static_cast<std::uint16_t*>(w.copy)), remainder(static_cast<std::int16_t*>(w.remainder)) {}
  template <int N>
  __device__ Pack<float, N> number(std::int64_t i, bool packed) const {
    const auto upper = load_any<N>(copy + i, packed);
    const auto rest = load_any<N>(remainder + i, packed);
    Pack<float, N> out;
#pragma unroll
    for (int l = 0; l < N; ++l) out.at[l] = join_bits(upper.at[l], rest.at[l]);
    return out;
  }
  template <int N>
  __device__ void put(std::int64_t i, const Pack<float, N>& p, bool packed) const {
    Pack<std::uint16_t, N> upper;
    Pack<std::int16_t, N> rest;
#pragma unroll
    for (int l = 0; l < N; ++l) {
      const auto bits = split_bits(p.at[l]);
      upper.at[l] = static_cast<std::uint16_t>(bits >> 16);
      rest.at[l] = static_cast<std::int16_t>(static_cast<std::uint16_t>(bits));
    }
    store_any(copy + i, upper, packed);
    store_any(remainder + i, rest, packed);
  }
};

// A type, as a value to call with.
template <class T>
struct Form {
  using Type = T;
};

// Calls f(Form<W>) with the form that the weight is stored in.
template <class F>
void with_master(const StoredMaster& w, F&& f) {
  if (!w.master) return f(Form<SplitMaster>{});
  with_device_float(w.master.dtype(), [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, __nv_bfloat16>) {
      if (w.copy && w.copy.dtype() == DType::bf16) return f(Form<CopiedMaster<T, __nv_bfloat16>>{});
      if (w.copy) return f(Form<CopiedMaster<T, T>>{});
    }
    f(Form<LoneMaster<T>>{});
  });
}

// True where packs of four elements of all that belongs to the weight lie whole.
inline bool packs_aligned(const StoredMaster& w) {
  return packs_aligned({elements<void>(w.master), elements<void>(w.copy), elements<void>(w.remainder)});
}

}  // namespace fivefold::cuda
