// What feeds the matrix products of a warpgroup (128 threads): barriers, bulk copies, tiles in shared memory.
// Hopper's own instructions (sm_90a): a kernel that uses them compiles for other architectures too, but stops
// where it runs there.
#pragma once
#include <cuda.h>

#include "kernels/cuda/attention_fragments.cuh"

namespace fivefold::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr bool kHopper = true;
#else
constexpr bool kHopper = false;
#endif

// --- Barriers in shared memory that count arrivals and bytes. Phases alternate between parity 0 and 1; to
// wait for parity 1 on a fresh barrier returns at once. ---
using Barrier = std::uint64_t;

__device__ __forceinline__ std::uint32_t shared_of(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void init_barrier(Barrier* b, int arrivals) {
  if constexpr (kHopper)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_of(b)), "r"(arrivals) : "memory");
}
// After the first thread's init_barrier calls, before the block's first __syncthreads.
__device__ __forceinline__ void publish_barriers() {
  if constexpr (kHopper)
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void arrive(Barrier* b) {
  if constexpr (kHopper)
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_of(b)) : "memory");
}
// Arrives once a warp, after all its lanes have come here.
__device__ __forceinline__ void arrive_warp(Barrier* b) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(b);
}
__device__ __forceinline__ void arrive_for_bytes(Barrier* b, int bytes) {
  if constexpr (kHopper)
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_of(b)), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void wait_barrier(Barrier* b, std::uint32_t parity) {
  if constexpr (kHopper)
    asm volatile(
        "{\n.reg .pred done;\nAGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(shared_of(b)),
        "r"(parity)
        : "memory");
}

// Place in a ring of stages and the parity of its barriers.
template <int Stages>
struct Ring {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage < Stages) return;
    stage = 0;
    parity ^= 1;
  }
};

// Barriers of the hardware, numbered 1 to 15, among `threads`.
__device__ __forceinline__ void sync_named(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void arrive_named(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Which warpgroup of the block this thread belongs to, known to be the same in all lanes of a warp.
__device__ __forceinline__ int warpgroup() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
}

template <int Registers>
__device__ __forceinline__ void take_registers() {
  if constexpr (kHopper)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
  else
    __trap();
}
template <int Registers>
__device__ __forceinline__ void leave_registers() {
  if constexpr (kHopper)
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
  else
    __trap();
}

// --- Tiles in shared memory: rows of 64 bf16, 128 bytes, whose 16-byte chunks are swizzled; a wider row
// continues in the next block of as many rows. Aligned to 1024 bytes. ---
constexpr int kChunk = 64, kChunkBytes = 128;
template <int Width>
constexpr int kChunks = (Width + kChunk - 1) / kChunk;
template <int Rows, int Width>
constexpr int kTileBytes = Rows* kChunks<Width>* kChunkBytes;

// Starts the copy of rows [row, row + Rows) of a head; zeros beyond the tensor. Bytes count towards `done`.
template <int Rows, int Width>
__device__ __forceinline__ void copy_tile(const CUtensorMap& from, int head, int row, unsigned char* to,
                                          Barrier* done) {
  if constexpr (kHopper)
#pragma unroll
    for (int c = 0; c < kChunks<Width>; ++c)
      asm volatile(
          "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
          "%5}], [%2];" ::"r"(shared_of(to + c * Rows * kChunkBytes)),
          "l"(&from), "r"(shared_of(done)), "r"(c * kChunk), "r"(head), "r"(row)
          : "memory");
}

// Starts the copy of `Bytes` bytes, a multiple of 16, between addresses that 16 divides.
template <int Bytes>
__device__ __forceinline__ void copy_bytes(const void* from, void* to, Barrier* done) {
  if constexpr (kHopper)
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            shared_of(to)),
        "l"(from), "n"(Bytes), "r"(shared_of(done))
        : "memory");
}

// Operand of a product from row `row` of a tile (a multiple of 8). Rows are m or n and columns k, or,
// transposed, rows are k and columns n. Strides: between groups of 8 rows (1024 bytes), between chunks
// (transposed only).
__device__ __forceinline__ std::uint64_t operand(const unsigned char* tile, int row, int rows_of_tile) {
  return static_cast<std::uint64_t>(shared_of(tile + row * kChunkBytes) >> 4 & 0x3fff) |
         static_cast<std::uint64_t>(rows_of_tile * kChunkBytes >> 4) << 16 |
         static_cast<std::uint64_t>(8 * kChunkBytes >> 4) << 32 | std::uint64_t{1} << 62;
}
// From one k of 16 to the next: in columns, in rows.
template <int RowsOfTile>
__device__ __forceinline__ std::uint64_t columns_on(std::uint64_t from, int k) {
  return from + static_cast<std::uint64_t>(k / 4 * (RowsOfTile * kChunkBytes >> 4) + k % 4 * 2);
}
__device__ __forceinline__ std::uint64_t rows_on(std::uint64_t from, int k) {
  return from + static_cast<std::uint64_t>(k * (16 * kChunkBytes >> 4));
}

// --- Products. Between issue and wait_products nothing may touch their registers. ---
__device__ __forceinline__ void begin_products() {
  if constexpr (kHopper) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void end_products() {
  if constexpr (kHopper) asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most `Left` groups are under way.
template <int Left>
__device__ __forceinline__ void wait_products() {
  if constexpr (kHopper) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
}
// Has the assembler finish the work that x, no negative number, ends before it waits for further products: it
// puts waits first within a stretch of code without branches.
__device__ __forceinline__ void settle(float x) {
  if (__any_sync(0xffffffffu, x < 0)) __trap();
}
// Keeps the compiler from moving these registers across.
template <int N>
__device__ __forceinline__ void pin(float (&d)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(d[n][i])::"memory");
}

}  // namespace fivefold::cuda
