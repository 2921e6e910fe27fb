// Matrix products of a warp by mma.sync m16n8k16 on rows of bf16 in shared memory, and their copies from
// global memory by cp.async (sm_80 and later).
#pragma once
#include "kernels/cuda/attention_fragments.cuh"

namespace fivefold::cuda {

// Elements from one row in shared memory to the next: an odd number of 16-byte chunks, so that the eight rows
// an ldmatrix reads lie in different banks.
template <int Width>
constexpr int kPitch = Width + 8;

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// 16 bytes; zeros where not `here`.
__device__ __forceinline__ void copy_async(void* to, const void* from, bool here) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(here ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], const __nv_bfloat16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ __forceinline__ void load_transposed(std::uint32_t (&to)[4], const __nv_bfloat16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ __forceinline__ void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// One head of a tensor [rows, heads, Width].
struct BfRows {
  const __nv_bfloat16* first;
  std::int64_t stride;
  int rows;
};
__device__ __forceinline__ BfRows head_of(const __nv_bfloat16* data, int rows, int heads, int head,
                                          int width) {
  return {data + static_cast<std::int64_t>(head) * width, static_cast<std::int64_t>(heads) * width, rows};
}

// Starts the copy of rows [begin, begin + Rows) to shared memory; zeros beyond the last row.
template <int Rows, int Width, int Threads>
__device__ __forceinline__ void copy_rows(const BfRows& from, int begin, __nv_bfloat16* to) {
  constexpr int kChunks = Width / 8, kAll = Rows * kChunks;
#pragma unroll
  for (int step = 0; step < (kAll + Threads - 1) / Threads; ++step) {
    const int i = step * Threads + static_cast<int>(threadIdx.x), row = i / kChunks, chunk = i % kChunks;
    if (kAll % Threads != 0 && i >= kAll) break;
    const bool here = begin + row < from.rows;
    copy_async(to + row * kPitch<Width> + chunk * 8,
               from.first + (here ? (begin + row) * from.stride : 0) + chunk * 8, here);
  }
}

// s = a b^T over Width: M blocks of 16 rows of a from `a`, 8 N rows of b.
template <int Width, int M, int N>
__device__ __forceinline__ void multiply_rows(const __nv_bfloat16* a, const __nv_bfloat16* b,
                                              float (&s)[M][N][4]) {
  static_assert(N % 2 == 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto* const a_row = a + lane % 16 * kPitch<Width> + lane / 16 * 8;
  const auto* const b_row = b + (lane / 16 * 8 + lane % 8) * kPitch<Width> + lane / 8 % 2 * 8;
#pragma unroll
  for (int m = 0; m < M; ++m) clear(s[m]);
#pragma unroll
  for (int k = 0; k < Width; k += 16) {
    std::uint32_t left[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) load_matrices(left[m], a_row + m * 16 * kPitch<Width> + k);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      std::uint32_t right[4];
      load_matrices(right, b_row + n * 8 * kPitch<Width> + k);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        multiply_add(s[m][n], left[m], right[0], right[1]);
        multiply_add(s[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// sum += p b: p has M blocks of 16 rows and 16 K columns, b 16 K rows of width 8 N in shared memory.
template <int M, int K, int N>
__device__ __forceinline__ void add_product(const std::uint32_t (&p)[M][K][4], const __nv_bfloat16* b,
                                            float (&sum)[M][N][4]) {
  static_assert(N % 2 == 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto* const row = b + lane % 16 * kPitch<8 * N> + lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < K; ++k)
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      std::uint32_t right[4];
      load_transposed(right, row + k * 16 * kPitch<8 * N> + n * 8);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        multiply_add(sum[m][n], p[m][k], right[0], right[1]);
        multiply_add(sum[m][n + 1], p[m][k], right[2], right[3]);
      }
    }
}

}  // namespace fivefold::cuda
