// One tile of c = op(a) op(b) + bias + beta c by one block. Two forms: multiply-adds in the arithmetic type
// with any strides (f64, f32), and tensor cores for bf16 (wmma, f32 sums). Elements outside count as zero.
#pragma once
#include <mma.h>

#include "kernels/cuda/device.cuh"

namespace fivefold::cuda {

constexpr int kTileThreads = 256;

// Rows of a and b as they lie: lda, ldb elements from one to the next.
template <class T, class C>
struct TileProduct {
  using A = Accum<T>;
  const T *a, *b;
  C* c;
  std::int64_t lda, ldb, ldc, m, n, k;
  const void* bias;  // [n] or null
  bool wide_bias;    // in the accumulate dtype, not in T
  A beta;

  // Element of c from its sum.
  __device__ void finish(std::int64_t row, std::int64_t column, A sum) const {
    if (row >= m || column >= n) return;
    C& to = c[row * ldc + column];
    if (beta != A(0)) sum += beta * widen<A>(to);
    if (bias)
      sum += wide_bias ? static_cast<const A*>(bias)[column] : widen<A>(static_cast<const T*>(bias)[column]);
    to = narrow<C>(sum);
  }
};

// Size of a tile of c.
template <class T>
constexpr int kTileEdge = std::is_same_v<T, __nv_bfloat16> ? 128 : 64;

template <bool TransposeA, bool TransposeB, class T, class C>
__device__ void multiply_plain(const TileProduct<T, C>& p, std::int64_t row, std::int64_t column) {
  using A = Accum<T>;
  constexpr int kEdge = 64, kInner = 16, kEach = 4;
  __shared__ A a[kInner][kEdge + 1], b[kInner][kEdge + 1];
  const int ty = static_cast<int>(threadIdx.x) / 16, tx = static_cast<int>(threadIdx.x) % 16;
  A sum[kEach][kEach] = {};
  for (std::int64_t k = 0; k < p.k; k += kInner) {
    for (int i = static_cast<int>(threadIdx.x); i < kEdge * kInner; i += kTileThreads) {
      // Neighbouring threads read neighbours in memory.
      const int ka = TransposeA ? i / kEdge : i % kInner, ra = TransposeA ? i % kEdge : i / kInner;
      const int kb = TransposeB ? i % kInner : i / kEdge, cb = TransposeB ? i / kInner : i % kEdge;
      const bool in_a = row + ra < p.m && k + ka < p.k, in_b = column + cb < p.n && k + kb < p.k;
      const std::int64_t at_a = TransposeA ? (k + ka) * p.lda + row + ra : (row + ra) * p.lda + k + ka;
      const std::int64_t at_b = TransposeB ? (column + cb) * p.ldb + k + kb : (k + kb) * p.ldb + column + cb;
      a[ka][ra] = in_a ? widen<A>(p.a[at_a]) : A(0);
      b[kb][cb] = in_b ? widen<A>(p.b[at_b]) : A(0);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kInner; ++i) {
      A x[kEach], y[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        x[e] = a[i][ty + 16 * e];
        y[e] = b[i][tx + 16 * e];
      }
#pragma unroll
      for (int r = 0; r < kEach; ++r)
#pragma unroll
        for (int q = 0; q < kEach; ++q) sum[r][q] += x[r] * y[q];
    }
    __syncthreads();
  }
  for (int r = 0; r < kEach; ++r)
    for (int q = 0; q < kEach; ++q) p.finish(row + ty + 16 * r, column + tx + 16 * q, sum[r][q]);
}

// to[o][i] = from[o * ld + i] for Outer x Inner elements, zero at and beyond (outer, inner).
template <int Outer, int Inner, int Pitch>
__device__ void load_tile(const __nv_bfloat16* from, std::int64_t ld, std::int64_t outer, std::int64_t inner,
                          __nv_bfloat16* to) {
  constexpr int kPack = 8, kPacks = Inner / kPack;
  const bool aligned = reinterpret_cast<std::uintptr_t>(from) % 16 == 0 && ld % kPack == 0;
#pragma unroll
  for (int p = static_cast<int>(threadIdx.x); p < Outer * kPacks; p += kTileThreads) {
    const int o = p / kPacks, i = p % kPacks * kPack;
    Pack<__nv_bfloat16, kPack> pack;
    if (aligned && o < outer && i + kPack <= inner) {
      pack = load<kPack>(from + o * ld + i);
    } else {
#pragma unroll
      for (int l = 0; l < kPack; ++l)
        pack.at[l] = o < outer && i + l < inner ? from[o * ld + i + l] : narrow<__nv_bfloat16>(0.0f);
    }
    store(to + o * Pitch + i, pack);
  }
}

template <bool TransposeA, bool TransposeB, class C>
__device__ void multiply_tensor(const TileProduct<__nv_bfloat16, C>& p, std::int64_t row,
                                std::int64_t column) {
  namespace wmma = nvcuda::wmma;
  constexpr int kEdge = 128, kInner = 32, kUnit = 16, kDown = 4, kAcross = 2;  // a warp: 64 rows, 32 columns
  constexpr int kLong = kEdge + 8, kShort = kInner + 8;  // pitches without bank conflicts
  constexpr int kRoom = kEdge * kShort > kInner * kLong ? kEdge * kShort : kInner * kLong;
  constexpr int kPitchA = TransposeA ? kLong : kShort, kPitchB = TransposeB ? kShort : kLong;
  using LayoutA = std::conditional_t<TransposeA, wmma::col_major, wmma::row_major>;
  using LayoutB = std::conditional_t<TransposeB, wmma::col_major, wmma::row_major>;
  __shared__ alignas(32) __nv_bfloat16 a[kRoom], b[kRoom];
  __shared__ alignas(32) float staged[kTileThreads / 32][kUnit * kUnit];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = warp / 4 * kDown * kUnit, warp_column = warp % 4 * kAcross * kUnit;
  wmma::fragment<wmma::accumulator, kUnit, kUnit, kUnit, float> sum[kDown][kAcross];
  for (int r = 0; r < kDown; ++r)
    for (int q = 0; q < kAcross; ++q) wmma::fill_fragment(sum[r][q], 0.0f);
  for (std::int64_t k = 0; k < p.k; k += kInner) {
    if constexpr (TransposeA)
      load_tile<kInner, kEdge, kPitchA>(p.a + k * p.lda + row, p.lda, p.k - k, p.m - row, a);
    else
      load_tile<kEdge, kInner, kPitchA>(p.a + row * p.lda + k, p.lda, p.m - row, p.k - k, a);
    if constexpr (TransposeB)
      load_tile<kEdge, kInner, kPitchB>(p.b + column * p.ldb + k, p.ldb, p.n - column, p.k - k, b);
    else
      load_tile<kInner, kEdge, kPitchB>(p.b + k * p.ldb + column, p.ldb, p.k - k, p.n - column, b);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kInner; i += kUnit) {
      wmma::fragment<wmma::matrix_a, kUnit, kUnit, kUnit, __nv_bfloat16, LayoutA> x[kDown];
      wmma::fragment<wmma::matrix_b, kUnit, kUnit, kUnit, __nv_bfloat16, LayoutB> y[kAcross];
#pragma unroll
      for (int r = 0; r < kDown; ++r) {
        const int at = warp_row + r * kUnit;
        wmma::load_matrix_sync(x[r], a + (TransposeA ? i * kPitchA + at : at * kPitchA + i), kPitchA);
      }
#pragma unroll
      for (int q = 0; q < kAcross; ++q) {
        const int at = warp_column + q * kUnit;
        wmma::load_matrix_sync(y[q], b + (TransposeB ? at * kPitchB + i : i * kPitchB + at), kPitchB);
      }
#pragma unroll
      for (int r = 0; r < kDown; ++r)
#pragma unroll
        for (int q = 0; q < kAcross; ++q) wmma::mma_sync(sum[r][q], x[r], y[q], sum[r][q]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kDown; ++r)
#pragma unroll
    for (int q = 0; q < kAcross; ++q) {
      wmma::store_matrix_sync(staged[warp], sum[r][q], kUnit, wmma::mem_row_major);
      __syncwarp();
      for (int e = lane; e < kUnit * kUnit; e += 32)
        p.finish(row + warp_row + r * kUnit + e / kUnit, column + warp_column + q * kUnit + e % kUnit,
                 staged[warp][e]);
      __syncwarp();
    }
}

template <bool TransposeA, bool TransposeB, class T, class C>
__device__ void multiply_tile(const TileProduct<T, C>& p, std::int64_t row, std::int64_t column) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    multiply_tensor<TransposeA, TransposeB>(p, row, column);
  else
    multiply_plain<TransposeA, TransposeB>(p, row, column);
}

}  // namespace fivefold::cuda
