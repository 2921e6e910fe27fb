// Moves heads between rows and parts, one thread an element of the rows' side or the parts' side.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/execute.cuh"

namespace fivefold::cuda {

namespace {

// Where things lie: `place` counts the P n heads of all parts.
struct HeadParts {
  std::int64_t rows, heads, width, of_part, repeats;

  HeadParts(const Tensor& rows_tensor, const Tensor& parts)
      : rows(rows_tensor.dim(0)),
        heads(rows_tensor.dim(1)),
        width(rows_tensor.dim(2)),
        of_part(parts.dim(2)),
        repeats(parts.dim(0) * of_part / heads) {}
  __device__ std::int64_t part_at(std::int64_t row, std::int64_t place) const {
    return ((place / of_part * rows + row) * of_part + place % of_part) * width;
  }
};

// Element i of the rows goes to its `repeats` places.
template <class T>
struct ToParts {
  HeadParts p;
  const T* from;
  T* to;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const std::int64_t h = i / p.width, c = i - h * p.width, row = h / p.heads, head = h - row * p.heads;
    const auto pack = load<N>(from + i);
    for (std::int64_t r = 0; r < p.repeats; ++r) store(to + p.part_at(row, head * p.repeats + r) + c, pack);
  }
};

// From: the type of the parts, T or its arithmetic type.
template <class T, class From>
struct ToHeads {
  using A = Accum<T>;
  HeadParts p;
  const From* from;
  T* to;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const std::int64_t h = i / p.width, c = i - h * p.width, row = h / p.heads, head = h - row * p.heads;
    A sum[N] = {};
    for (std::int64_t r = 0; r < p.repeats; ++r) {
      const auto pack = load<N>(from + p.part_at(row, head * p.repeats + r) + c);
#pragma unroll
      for (int l = 0; l < N; ++l) sum[l] += widen<A>(pack.at[l]);
    }
    Pack<T, N> out;
#pragma unroll
    for (int l = 0; l < N; ++l) out.at[l] = narrow<T>(sum[l]);
    store(to + i, out);
  }
};

template <class T, class From>
void to_heads(const PartsToHeads& op, const CudaContext& ctx) {
  const ToHeads<T, From> f{HeadParts(op.rows, op.parts), elements<From>(op.parts), elements<T>(op.rows)};
  for_each<kPackOf<T>>(op.rows.count(), f.p.width % kPackOf<T> == 0 && packs_aligned({f.from, f.to}), f, ctx);
}

}  // namespace

void execute(const HeadsToParts& op, const CudaContext& ctx) {
  with_device_float(op.rows.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const ToParts<T> f{HeadParts(op.rows, op.parts), elements<T>(op.rows), elements<T>(op.parts)};
    for_each<kPackOf<T>>(op.rows.count(), f.p.width % kPackOf<T> == 0 && packs_aligned({f.from, f.to}), f,
                         ctx);
  });
}

void execute(const PartsToHeads& op, const CudaContext& ctx) {
  with_device_float(op.rows.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (op.parts.dtype() == op.rows.dtype())
      to_heads<T, T>(op, ctx);
    else
      to_heads<T, Accum<T>>(op, ctx);
  });
}

}  // namespace fivefold::cuda
