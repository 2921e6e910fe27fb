// Column sums. Threads take columns, so each sum has one order whatever their number; rows are added in
// blocks first, which keeps long sums accurate.
#include "kernels/cpu/accum.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {

namespace {

constexpr std::int64_t kBlockRows = 128, kBlockColumns = 256;

template <class T>
void add_columns(const T* dy, std::int64_t rows, std::int64_t width, std::int64_t begin, std::int64_t end,
                 Accum<T>* d_bias) {
  using A = Accum<T>;
  for (std::int64_t first = 0; first < rows; first += kBlockRows) {
    A sum[kBlockColumns] = {};
    for (auto t = first; t < std::min(rows, first + kBlockRows); ++t)
      for_each_element(0, end - begin, [&, row = dy + t * width + begin](std::int64_t n) {
        sum[n] += static_cast<A>(row[n]);
      });
    for_each_element(0, end - begin, [&](std::int64_t n) { d_bias[begin + n] += sum[n]; });
  }
}

}  // namespace

void execute(const BiasGradient& op, const CpuContext& ctx) {
  with_float(op.dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* dy = op.dy.data<T>();
    auto* d_bias = op.d_bias.data<Accum<T>>();
    const auto rows = op.dy.dim(0), width = op.dy.dim(1);
    parallel_for(ctx, width, rows, [=](std::int64_t begin, std::int64_t end) {
      for (auto n = begin; n < end; n += kBlockColumns)
        add_columns(dy, rows, width, n, std::min(end, n + kBlockColumns), d_bias);
    });
  });
}

}  // namespace fivefold::cpu
