// Matrix products: the output is cut into one tile per thread, each tile is one product of the library.
#include "kernels/cpu/gemm.h"

#include "kernels/cpu/accum.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/parallel_for.h"

namespace fivefold::cpu {

namespace {

constexpr std::int64_t kTileStep = 16;     // tiles start at multiples of it, for the library's own blocks
constexpr std::int64_t kFlopsPerNs = 100;  // of one thread in f32

std::int64_t tile_edge(std::int64_t size, std::int64_t tile, std::int64_t tiles) {
  return std::min(size, round_up(size * tile / tiles, kTileStep));
}

// Half the circumference of a tile: what is read for it per unit of the inner dim.
double reach(std::int64_t m, std::int64_t n, const TileGrid& grid) {
  return static_cast<double>(m) / static_cast<double>(grid.rows) +
         static_cast<double>(n) / static_cast<double>(grid.columns);
}

template <class T, class C>
void multiply_tile(Products& products, const ProductShape& whole, const TileGrid& grid, std::int64_t tile,
                   const T* a, const T* b, C* c, const Accum<T>* bias) {
  const auto r = tile / grid.columns, q = tile % grid.columns;
  const auto row = tile_edge(whole.m, r, grid.rows), column = tile_edge(whole.n, q, grid.columns);
  ProductShape part = whole;
  part.m = tile_edge(whole.m, r + 1, grid.rows) - row;
  part.n = tile_edge(whole.n, q + 1, grid.columns) - column;
  const T* tile_a = a + (whole.transpose_a ? row : row * whole.lda);
  const T* tile_b = b + (whole.transpose_b ? column * whole.ldb : column);
  products.multiply(part, tile_a, tile_b, c + row * whole.ldc + column, bias ? bias + column : nullptr);
}

// Bias in the accumulate dtype, as the library takes it.
template <class T>
const Accum<T>* wide_bias(const Tensor& bias, const CpuContext& ctx) {
  using A = Accum<T>;
  if (!bias) return nullptr;
  if (bias.dtype() == dtype_of<A>()) return bias.data<A>();
  A* wide = ctx.scratch.get<A>(bias.count());
  std::copy_n(bias.data<T>(), bias.count(), wide);
  return wide;
}

}  // namespace

TileGrid tile_grid(int threads, std::int64_t thread_work, std::int64_t m, std::int64_t n, std::int64_t k) {
  const auto work = 2 * m * n / kFlopsPerNs * k;
  const auto tiles = part_count(threads, work, thread_work);
  TileGrid best{tiles, 1};
  for (std::int64_t columns = 2; columns <= tiles; ++columns) {
    const TileGrid grid{tiles / columns, columns};
    if (tiles % columns == 0 && reach(m, n, grid) < reach(m, n, best)) best = grid;
  }
  return best;
}

template <class T, class C>
void multiply_tiled(const CpuContext& ctx, const ProductShape& shape, const T* a, const T* b, C* c,
                    const Accum<T>* bias) {
  const auto grid = tile_grid(ctx.threads, ctx.thread_work, shape.m, shape.n, shape.k);
  const auto tiles = grid.rows * grid.columns;
  parallel_for(ctx.threads, tiles, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto tile = begin; tile < end; ++tile) multiply_tile(ctx.products, shape, grid, tile, a, b, c, bias);
  });
}

template void multiply_tiled(const CpuContext&, const ProductShape&, const double*, const double*, double*,
                             const double*);
template void multiply_tiled(const CpuContext&, const ProductShape&, const float*, const float*, float*,
                             const float*);
template void multiply_tiled(const CpuContext&, const ProductShape&, const bf16*, const bf16*, float*,
                             const float*);
template void multiply_tiled(const CpuContext&, const ProductShape&, const bf16*, const bf16*, bf16*,
                             const float*);

void execute(const Gemm& op, const CpuContext& ctx) {
  const ProductShape shape{op.transpose_a, op.transpose_b, op.m(),      op.n(), op.k(),
                           op.a.dim(1),    op.b.dim(1),    op.c.dim(1), op.beta};
  with_float(op.a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *a = op.a.data<T>(), *b = op.b.data<T>();
    const auto* bias = wide_bias<T>(op.bias, ctx);
    if (op.c.dtype() == op.a.dtype())
      multiply_tiled(ctx, shape, a, b, op.c.data<T>(), bias);
    else
      multiply_tiled(ctx, shape, a, b, op.c.data<Accum<T>>(), bias);
  });
}

}  // namespace fivefold::cpu
