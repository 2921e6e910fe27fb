// Products in tiles of our own: what the library does not take, and products of groups of rows whose bounds
// only the device knows. No sum is split over blocks, so each has one order.
#include "kernels/cuda/execute.cuh"
#include "kernels/cuda/products.cuh"
#include "kernels/cuda/tile_product.cuh"

namespace fivefold::cuda {

namespace {

// Tiles across in x, tiles down in y.
template <bool TransposeA, bool TransposeB, class T, class C>
__global__ void __launch_bounds__(kTileThreads) one_product(TileProduct<T, C> p) {
  constexpr std::int64_t kEdge = kTileEdge<T>;
  multiply_tile<TransposeA, TransposeB>(p, blockIdx.y * kEdge, blockIdx.x * kEdge);
}

// p: with b of group 0, all rows. Tiles down are counted over all groups, each of which has whole tiles of
// its own.
template <bool TransposeB, class T, class C>
__global__ void __launch_bounds__(kTileThreads)
    products_of_rows(TileProduct<T, C> p, const std::int32_t* offsets, std::int64_t groups,
                     std::int64_t b_of_group) {
  constexpr std::int64_t kEdge = kTileEdge<T>;
  std::int64_t tile = blockIdx.y;
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t begin = offsets[g], rows = offsets[g + 1] - begin, tiles = (rows + kEdge - 1) / kEdge;
    if (tile >= tiles) {
      tile -= tiles;
      continue;
    }
    p.a += begin * p.lda;
    p.b += g * b_of_group;
    p.c += begin * p.ldc;
    p.m = rows;
    multiply_tile<false, TransposeB>(p, tile * kEdge, blockIdx.x * kEdge);
    return;
  }
}

// p: with c of group 0 and all rows as the inner dimension. Groups in z.
template <class T, class C>
__global__ void __launch_bounds__(kTileThreads)
    products_of_weights(TileProduct<T, C> p, const std::int32_t* offsets, std::int64_t c_of_group) {
  constexpr std::int64_t kEdge = kTileEdge<T>;
  const std::int64_t begin = offsets[blockIdx.z];
  p.a += begin * p.lda;
  p.b += begin * p.ldb;
  p.c += blockIdx.z * c_of_group;
  p.k = offsets[blockIdx.z + 1] - begin;
  multiply_tile<true, false>(p, blockIdx.y * kEdge, blockIdx.x * kEdge);
}

template <class T, class C, class Op>
TileProduct<T, C> product_of(const Op& op, std::int64_t m, std::int64_t n, std::int64_t k) {
  return {elements<T>(op.a),
          elements<T>(op.b),
          elements<C>(op.c),
          op.a.dim(1),
          op.b.dim(1),
          op.c.dim(1),
          m,
          n,
          k,
          nullptr,
          false,
          static_cast<Accum<T>>(op.beta)};
}

unsigned tiles(std::int64_t size, std::int64_t edge) { return static_cast<unsigned>(ceil_div(size, edge)); }

// Calls f(T{}, C{}) with the types of a and c.
template <class Op, class F>
void with_types(const Op& op, F f) {
  with_device_float(op.a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (op.c.dtype() == op.a.dtype())
      f(T{}, T{});
    else
      f(T{}, Accum<T>{});
  });
}

template <class T, class C>
void queue_one(const Gemm& op, cudaStream_t stream) {
  auto p = product_of<T, C>(op, op.m(), op.n(), op.k());
  p.bias = op.bias ? op.bias.raw() : nullptr;
  p.wide_bias = op.bias && op.bias.dtype() != op.a.dtype();
  const dim3 grid(tiles(p.n, kTileEdge<T>), tiles(p.m, kTileEdge<T>));
  auto* const kernel =
      op.transpose_a ? (op.transpose_b ? one_product<true, true, T, C> : one_product<true, false, T, C>)
                     : (op.transpose_b ? one_product<false, true, T, C> : one_product<false, false, T, C>);
  kernel<<<grid, kTileThreads, 0, stream>>>(p);
  FF_CUDA(cudaGetLastError());
}

template <class T, class C>
void queue_rows(const GroupedGemm& op, const CudaContext& ctx) {
  const std::int64_t rows = op.a.dim(0), group_rows = op.b.dim(0) / op.groups();
  const auto p = product_of<T, C>(op, rows, op.c.dim(1), op.a.dim(1));
  if (op.c.count() == 0) return;
  const dim3 grid(tiles(p.n, kTileEdge<T>), tiles(rows, kTileEdge<T>) + static_cast<unsigned>(op.groups()));
  auto* const kernel = op.transpose_b ? products_of_rows<true, T, C> : products_of_rows<false, T, C>;
  kernel<<<grid, kTileThreads, 0, ctx.stream>>>(p, elements<std::int32_t>(op.offsets), op.groups(),
                                                group_rows * p.ldb);
  FF_CUDA(cudaGetLastError());
}

template <class T, class C>
void queue_weights(const GroupedGemm& op, const CudaContext& ctx) {
  const auto p = product_of<T, C>(op, op.a.dim(1), op.b.dim(1), op.a.dim(0));
  if (op.c.count() == 0) return;
  const dim3 grid(tiles(p.n, kTileEdge<T>), tiles(p.m, kTileEdge<T>), static_cast<unsigned>(op.groups()));
  products_of_weights<T, C>
      <<<grid, kTileThreads, 0, ctx.stream>>>(p, elements<std::int32_t>(op.offsets), p.m * p.n);
  FF_CUDA(cudaGetLastError());
}

}  // namespace

void multiply_in_tiles(const Gemm& op, cudaStream_t stream) {
  with_types(op, [&](auto t, auto c) { queue_one<decltype(t), decltype(c)>(op, stream); });
}

void execute(const GroupedGemm& op, const CudaContext& ctx) {
  if (multiply_groups_wide(op, ctx.stream)) return;
  with_types(op, [&](auto t, auto c) {
    using T = decltype(t);
    using C = decltype(c);
    op.side == GroupedSide::weight ? queue_weights<T, C>(op, ctx) : queue_rows<T, C>(op, ctx);
  });
}

}  // namespace fivefold::cuda
