// One product per group of rows, group after group, each on all threads.
#include "kernels/cpu/execute.h"
#include "kernels/cpu/gemm.h"

namespace fivefold::cpu {

namespace {

template <class T, class C>
void multiply_group(const GroupedGemm& op, const CpuContext& ctx, std::int64_t group, std::int64_t begin,
                    std::int64_t end) {
  const auto lda = op.a.dim(1), ldb = op.b.dim(1), ldc = op.c.dim(1);
  const T* a = op.a.data<T>() + begin * lda;
  C* c = op.c.data<C>();
  if (op.side == GroupedSide::weight)
    return multiply_tiled(ctx, {true, false, lda, ldb, end - begin, lda, ldb, ldc, op.beta}, a,
                          op.b.data<T>() + begin * ldb, c + group * lda * ldc);
  const auto group_rows = op.b.dim(0) / op.groups();
  multiply_tiled(ctx, {false, op.transpose_b, end - begin, ldc, lda, lda, ldb, ldc, op.beta}, a,
                 op.b.data<T>() + group * group_rows * ldb, c + begin * ldc);
}

template <class T, class C>
void multiply_groups(const GroupedGemm& op, const CpuContext& ctx) {
  const auto* offsets = op.offsets.data<std::int32_t>();
  for (std::int64_t g = 0; g < op.groups(); ++g) {
    const std::int64_t begin = offsets[g], end = offsets[g + 1];
    FF_CHECK(0 <= begin && begin <= end && end <= op.a.dim(0), "rows [", begin, ", ", end, ") of group ", g,
             " of ", op.a.dim(0));
    multiply_group<T, C>(op, ctx, g, begin, end);
  }
}

}  // namespace

void execute(const GroupedGemm& op, const CpuContext& ctx) {
  with_float(op.a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (op.c.dtype() == op.a.dtype())
      multiply_groups<T, T>(op, ctx);
    else
      multiply_groups<T, Accum<T>>(op, ctx);
  });
}

}  // namespace fivefold::cpu
