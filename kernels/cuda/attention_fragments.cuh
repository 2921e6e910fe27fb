// What attention by tensor cores does with scores in registers. A fragment s[N][4] is a warp's 16 rows by 8 N
// columns as the tensor cores leave them: lane l holds rows l / 4 (elements 0, 1) and l / 4 + 8 (2, 3) of
// columns 8 n + 2 (l % 4) and the next. Packed to bf16, columns 16 k to 16 k + 15 are the left operand of a
// further product.
#pragma once
#include "kernels/cuda/attention_operands.cuh"
#include "kernels/cuda/attention_plan.cuh"

namespace fivefold::cuda {

constexpr float kLog2E = 1.44269504088896340736f;

__device__ __forceinline__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ int lane_row() { return static_cast<int>(threadIdx.x) % 32 / 4; }
__device__ __forceinline__ int lane_column() { return static_cast<int>(threadIdx.x) % 4 * 2; }

// Over the four lanes that hold a row.
template <class Join>
__device__ __forceinline__ float join_row(float x, Join join) {
  x = join(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return join(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
template <int N>
__device__ __forceinline__ void pack(const float (&s)[N][4], std::uint32_t (&to)[N / 2][4]) {
#pragma unroll
  for (int k = 0; k < N / 2; ++k) {
    to[k][0] = pack_bf16(s[2 * k][0], s[2 * k][1]);
    to[k][1] = pack_bf16(s[2 * k][2], s[2 * k][3]);
    to[k][2] = pack_bf16(s[2 * k + 1][0], s[2 * k + 1][1]);
    to[k][3] = pack_bf16(s[2 * k + 1][2], s[2 * k + 1][3]);
  }
}

template <int N>
__device__ __forceinline__ void clear(float (&s)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) s[n][i] = 0;
}

// Puts -inf where rows (queries `row` + 0 and + 8 of this lane) do not see columns (keys from `key`). Inside:
// no column lies beyond the last key.
template <bool Inside, int N>
__device__ __forceinline__ void hide_columns(float (&s)[N][4], const MaskIndices& mask, int row, int key) {
  std::int32_t first[2], last[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) mask.window_of(row + lane_row() + 8 * r, first[r], last[r]);
  const std::int32_t* const index = mask.k_index + key + lane_column();
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const bool here = Inside || key + lane_column() + 8 * n + c < mask.keys;
      const std::int32_t j = here ? index[8 * n + c] : 0;
#pragma unroll
      for (int r = 0; r < 2; ++r)
        if (!here || j < first[r] || j > last[r]) s[n][2 * r + c] = -INFINITY;
    }
}
template <int N>
__device__ __forceinline__ void hide(float (&s)[N][4], const MaskIndices& mask, int row, int key) {
  if (key + 8 * N <= mask.keys)
    hide_columns<true>(s, mask, row, key);
  else
    hide_columns<false>(s, mask, row, key);
}

// The same with keys (from `key`) down and queries (from `row`) across.
template <bool Inside, int N>
__device__ __forceinline__ void hide_rows(float (&s)[N][4], const MaskIndices& mask, int row, int key) {
  std::int32_t index[2];
  bool here[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int j = key + lane_row() + 8 * r;
    here[r] = j < mask.keys;
    index[r] = here[r] ? mask.k_index[j] : 0;
  }
  const int begin = row + lane_column();
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const bool asks = Inside || begin + 8 * n + c < mask.queries;
      const std::int32_t first = asks ? mask.first_visible[begin + 8 * n + c] : INT32_MAX,
                         last = asks ? mask.q_index[begin + 8 * n + c] : INT32_MIN;
#pragma unroll
      for (int r = 0; r < 2; ++r)
        if (!here[r] || index[r] < first || index[r] > last) s[n][2 * r + c] = -INFINITY;
    }
}
template <int N>
__device__ __forceinline__ void hide_transposed(float (&s)[N][4], const MaskIndices& mask, int row, int key) {
  if (row + 8 * N <= mask.queries)
    hide_rows<true>(s, mask, row, key);
  else
    hide_rows<false>(s, mask, row, key);
}

// Running maximum and sum of the two rows of a lane (Milakov & Gimelshein 2018). `by` is scale * log2(e), so
// that 2^(by s) = e^(scale s). The sum is of this lane's columns only.
struct RunningSoftmax {
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};

  // Scores become unscaled probabilities; shrink[r] is what earlier results of row r have to be multiplied
  // by.
  template <int N>
  __device__ __forceinline__ void step(float (&s)[N][4], float by, float (&shrink)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float now = top[r];
#pragma unroll
      for (int n = 0; n < N; ++n) now = fmaxf(now, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
      now = join_row(now, Greatest());
      const float base = now == -INFINITY ? 0.f : now * by;
      shrink[r] = exp2_of(top[r] * by - base);
      top[r] = now;
      float added = 0;
#pragma unroll
      for (int n = 0; n < N; ++n) {
        s[n][2 * r] = exp2_of(s[n][2 * r] * by - base);
        s[n][2 * r + 1] = exp2_of(s[n][2 * r + 1] * by - base);
        added += s[n][2 * r] + s[n][2 * r + 1];
      }
      sum[r] = sum[r] * shrink[r] + added;
    }
  }
  // Joins the sums of the lanes of a row; 1 / sum or 0, and the log-sum-exp.
  __device__ __forceinline__ void finish(float scale, float (&inverse)[2], float (&lse)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sum[r] = join_row(sum[r], Sum());
      const bool blind = sum[r] == 0;
      inverse[r] = blind ? 0.f : 1.f / sum[r];
      lse[r] = blind ? -INFINITY : top[r] * scale + logf(sum[r]);
    }
  }
};

// True in a warp where some row of these has to shrink.
__device__ __forceinline__ bool some_shrink(const float (&shrink)[2]) {
  return __any_sync(0xffffffffu, shrink[0] != 1.f || shrink[1] != 1.f);
}

template <int N>
__device__ __forceinline__ void scale_rows(float (&out)[N][4], const float (&by)[2]) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) out[n][i] *= by[i / 2];
}

// A 4 by 4 transposition among the four lanes of a row: w[i] of lane j becomes w[j] of lane i.
template <class W>
__device__ __forceinline__ void transpose_quad(W (&w)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int step = 1; step <= 2; step *= 2)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if ((i & step) == 0) {
        const bool upper = (lane & step) != 0;
        const W got = __shfl_xor_sync(0xffffffffu, upper ? w[i] : w[i + step], step);
        w[i] = upper ? got : w[i];
        w[i + step] = upper ? w[i + step] : got;
      }
}

// Two rows of a lane into rows `row` and `row` + 8 (of `rows`) of head `head` of a tensor [rows, heads, 8 N].
// The lanes of a row first exchange pairs, so that each writes 16 bytes at once.
template <int N>
__device__ __forceinline__ void write_fragment(const float (&x)[N][4], void* to, bool wide, int row, int rows,
                                               int heads, int head) {
  static_assert(N % 4 == 0);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int i = row + lane_row() + 8 * r;
    const std::int64_t at = (static_cast<std::int64_t>(i) * heads + head) * (8 * N) + lane_column() * 4;
#pragma unroll
    for (int n = 0; n < N; n += 4) {
      if (wide) {
        float even[4], odd[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) even[c] = x[n + c][2 * r], odd[c] = x[n + c][2 * r + 1];
        transpose_quad(even);
        transpose_quad(odd);
        auto* const out = reinterpret_cast<float4*>(static_cast<float*>(to) + at + 8 * n);
        if (i < rows) {
          out[0] = {even[0], odd[0], even[1], odd[1]};
          out[1] = {even[2], odd[2], even[3], odd[3]};
        }
      } else {
        std::uint32_t w[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) w[c] = pack_bf16(x[n + c][2 * r], x[n + c][2 * r + 1]);
        transpose_quad(w);
        if (i < rows)
          *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(to) + at + 8 * n) = {w[0], w[1], w[2], w[3]};
      }
    }
  }
}

}  // namespace fivefold::cuda
