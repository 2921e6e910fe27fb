// Products of a warpgroup by wgmma: 64 rows, a k of 16, as many columns as the width of d; the instruction
// exists for each width apart.
#pragma once
#include "kernels/cuda/warpgroup.cuh"

namespace fivefold::cuda {

#define FF_ROW(d, n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define FF_NEW(d, n) "=f"(d[n][0]), "=f"(d[n][1]), "=f"(d[n][2]), "=f"(d[n][3])

// wgmma_fresh: d = a b. wgmma: d += a b. Both from tiles; operands as made by operand(). b has columns n down
// its rows, or, Transposed, across.
template <int Transposed>
__device__ __forceinline__ void wgmma_fresh(float (&d)[4][4], std::uint64_t a, std::uint64_t b) {
  if constexpr (kHopper)
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, 0, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "%16, %17, add, 1, 1, 0, %18;\n}\n"
        : FF_NEW(d, 0), FF_NEW(d, 1), FF_NEW(d, 2), FF_NEW(d, 3)
        : "l"(a), "l"(b), "n"(Transposed));
}
template <int Transposed>
__device__ __forceinline__ void wgmma(float (&d)[4][4], std::uint64_t a, std::uint64_t b) {
  if constexpr (kHopper)
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, 0, 1;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "%16, %17, add, 1, 1, 0, %18;\n}\n"
        : FF_ROW(d, 0), FF_ROW(d, 1), FF_ROW(d, 2), FF_ROW(d, 3)
        : "l"(a), "l"(b), "n"(Transposed));
}
template <int Transposed>
__device__ __forceinline__ void wgmma_fresh(float (&d)[8][4], std::uint64_t a, std::uint64_t b) {
  if constexpr (kHopper)
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, 0, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, add, 1, 1, 0, %34;\n}\n"
        : FF_NEW(d, 0), FF_NEW(d, 1), FF_NEW(d, 2), FF_NEW(d, 3), FF_NEW(d, 4), FF_NEW(d, 5), FF_NEW(d, 6),
          FF_NEW(d, 7)
        : "l"(a), "l"(b), "n"(Transposed));
}
template <int Transposed>
__device__ __forceinline__ void wgmma(float (&d)[8][4], std::uint64_t a, std::uint64_t b) {
  if constexpr (kHopper)
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, 0, 1;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, add, 1, 1, 0, %34;\n}\n"
        : FF_ROW(d, 0), FF_ROW(d, 1), FF_ROW(d, 2), FF_ROW(d, 3), FF_ROW(d, 4), FF_ROW(d, 5), FF_ROW(d, 6),
          FF_ROW(d, 7)
        : "l"(a), "l"(b), "n"(Transposed));
}
template <int Transposed>
__device__ __forceinline__ void wgmma_fresh(float (&d)[16][4], std::uint64_t a, std::uint64_t b) {
  if constexpr (kHopper)
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, 0, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, add, 1, 1, 0, %66;\n}\n"
        : FF_NEW(d, 0), FF_NEW(d, 1), FF_NEW(d, 2), FF_NEW(d, 3), FF_NEW(d, 4), FF_NEW(d, 5), FF_NEW(d, 6),
          FF_NEW(d, 7), FF_NEW(d, 8), FF_NEW(d, 9), FF_NEW(d, 10), FF_NEW(d, 11), FF_NEW(d, 12),
          FF_NEW(d, 13), FF_NEW(d, 14), FF_NEW(d, 15)
        : "l"(a), "l"(b), "n"(Transposed));
}
template <int Transposed>
__device__ __forceinline__ void wgmma(float (&d)[16][4], std::uint64_t a, std::uint64_t b) {
  if constexpr (kHopper)
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, 0, 1;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, add, 1, 1, 0, %66;\n}\n"
        : FF_ROW(d, 0), FF_ROW(d, 1), FF_ROW(d, 2), FF_ROW(d, 3), FF_ROW(d, 4), FF_ROW(d, 5), FF_ROW(d, 6),
          FF_ROW(d, 7), FF_ROW(d, 8), FF_ROW(d, 9), FF_ROW(d, 10), FF_ROW(d, 11), FF_ROW(d, 12),
          FF_ROW(d, 13), FF_ROW(d, 14), FF_ROW(d, 15)
        : "l"(a), "l"(b), "n"(Transposed));
}

// d += a b, a from registers.
template <int Transposed>
__device__ __forceinline__ void wgmma(float (&d)[8][4], const std::uint32_t (&a)[4], std::uint64_t b) {
  if constexpr (kHopper)
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, 0, 1;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, add, 1, 1, %37;\n}\n"
        : FF_ROW(d, 0), FF_ROW(d, 1), FF_ROW(d, 2), FF_ROW(d, 3), FF_ROW(d, 4), FF_ROW(d, 5), FF_ROW(d, 6),
          FF_ROW(d, 7)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(Transposed));
}
template <int Transposed>
__device__ __forceinline__ void wgmma(float (&d)[12][4], const std::uint32_t (&a)[4], std::uint64_t b) {
  if constexpr (kHopper)
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, 0, 1;\n"
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
        "{%48, %49, %50, %51}, %52, add, 1, 1, %53;\n}\n"
        : FF_ROW(d, 0), FF_ROW(d, 1), FF_ROW(d, 2), FF_ROW(d, 3), FF_ROW(d, 4), FF_ROW(d, 5), FF_ROW(d, 6),
          FF_ROW(d, 7), FF_ROW(d, 8), FF_ROW(d, 9), FF_ROW(d, 10), FF_ROW(d, 11)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(Transposed));
}
template <int Transposed>
__device__ __forceinline__ void wgmma(float (&d)[16][4], const std::uint32_t (&a)[4], std::uint64_t b) {
  if constexpr (kHopper)
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, 0, 1;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, add, 1, 1, %69;\n}\n"
        : FF_ROW(d, 0), FF_ROW(d, 1), FF_ROW(d, 2), FF_ROW(d, 3), FF_ROW(d, 4), FF_ROW(d, 5), FF_ROW(d, 6),
          FF_ROW(d, 7), FF_ROW(d, 8), FF_ROW(d, 9), FF_ROW(d, 10), FF_ROW(d, 11), FF_ROW(d, 12),
          FF_ROW(d, 13), FF_ROW(d, 14), FF_ROW(d, 15)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(Transposed));
}
template <int Transposed>
__device__ __forceinline__ void wgmma(float (&d)[24][4], const std::uint32_t (&a)[4], std::uint64_t b) {
  if constexpr (kHopper)
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, 0, 1;\n"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
        "{%96, %97, %98, %99}, %100, add, 1, 1, %101;\n}\n"
        : FF_ROW(d, 0), FF_ROW(d, 1), FF_ROW(d, 2), FF_ROW(d, 3), FF_ROW(d, 4), FF_ROW(d, 5), FF_ROW(d, 6),
          FF_ROW(d, 7), FF_ROW(d, 8), FF_ROW(d, 9), FF_ROW(d, 10), FF_ROW(d, 11), FF_ROW(d, 12),
          FF_ROW(d, 13), FF_ROW(d, 14), FF_ROW(d, 15), FF_ROW(d, 16), FF_ROW(d, 17), FF_ROW(d, 18),
          FF_ROW(d, 19), FF_ROW(d, 20), FF_ROW(d, 21), FF_ROW(d, 22), FF_ROW(d, 23)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(Transposed));
}
template <int Transposed>
__device__ __forceinline__ void wgmma(float (&d)[32][4], const std::uint32_t (&a)[4], std::uint64_t b) {
  if constexpr (kHopper)
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, 0, 1;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "{%128, %129, %130, %131}, %132, add, 1, 1, %133;\n}\n"
        : FF_ROW(d, 0), FF_ROW(d, 1), FF_ROW(d, 2), FF_ROW(d, 3), FF_ROW(d, 4), FF_ROW(d, 5), FF_ROW(d, 6),
          FF_ROW(d, 7), FF_ROW(d, 8), FF_ROW(d, 9), FF_ROW(d, 10), FF_ROW(d, 11), FF_ROW(d, 12),
          FF_ROW(d, 13), FF_ROW(d, 14), FF_ROW(d, 15), FF_ROW(d, 16), FF_ROW(d, 17), FF_ROW(d, 18),
          FF_ROW(d, 19), FF_ROW(d, 20), FF_ROW(d, 21), FF_ROW(d, 22), FF_ROW(d, 23), FF_ROW(d, 24),
          FF_ROW(d, 25), FF_ROW(d, 26), FF_ROW(d, 27), FF_ROW(d, 28), FF_ROW(d, 29), FF_ROW(d, 30),
          FF_ROW(d, 31)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(Transposed));
}
#undef FF_ROW
#undef FF_NEW

}  // namespace fivefold::cuda
