// What products of 64 x 256 need beside wgmma.cuh: boxes of matrices, both operands in either direction.
#pragma once
#include "kernels/cuda/wgmma.cuh"

namespace fivefold::cuda {

// Orders this thread's writes to shared memory before what copies and products do after a barrier.
__device__ __forceinline__ void publish_writes() {
  if constexpr (kHopper) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Starts the copy of a box from (column, row) of a tensor of one head; zeros beyond it. Bytes count towards
// `done`.
__device__ __forceinline__ void copy_box(const CUtensorMap& from, int column, int row, unsigned char* to,
                                         Barrier* done) {
  if constexpr (kHopper)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
        "%4}], "
        "[%5];" ::"r"(shared_of(to)),
        "l"(&from), "r"(column), "r"(0), "r"(row), "r"(shared_of(done))
        : "memory");
}

// Adds to two floats in memory, without waiting for what is there.
__device__ __forceinline__ void add_to_memory(float* to, float first, float second) {
  if constexpr (kHopper)
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(first), "f"(second) : "memory");
}

#define FF_SUMS_8(i)                                                                                      \
  "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), "+f"(sum[i + 5]), \
      "+f"(sum[i + 6]), "+f"(sum[i + 7])
#define FF_SUMS_32(i) FF_SUMS_8(i), FF_SUMS_8(i + 8), FF_SUMS_8(i + 16), FF_SUMS_8(i + 24)

// sum += a b, 64 x 256, 16 inner indices. A transposed operand has inner indices as its rows.
template <bool TransposedA, bool TransposedB>
__device__ __forceinline__ void multiply_64x256x16(float (&sum)[128], std::uint64_t a, std::uint64_t b) {
  if constexpr (kHopper)
    asm volatile(
        "{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
        "}, %128, %129, add, 1, 1, %130, %131;\n}"
        : FF_SUMS_32(0), FF_SUMS_32(32), FF_SUMS_32(64), FF_SUMS_32(96)
        : "l"(a), "l"(b), "n"(TransposedA ? 1 : 0), "n"(TransposedB ? 1 : 0));
}
#undef FF_SUMS_32
#undef FF_SUMS_8

}  // namespace fivefold::cuda
