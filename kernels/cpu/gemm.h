// One product on all threads of the rank, for the ops that are made of products.
#pragma once
#include "kernels/cpu/accum.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/products.h"

namespace fivefold::cpu {

struct TileGrid {
  std::int64_t rows = 1, columns = 1;
};
// The grid of rows x columns <= threads tiles of an [m, n] output that reads least, fewer tiles where the
// work is small.
TileGrid tile_grid(int threads, std::int64_t thread_work, std::int64_t m, std::int64_t n, std::int64_t k);

// As Products::multiply. T, C: double, double; float, float; bf16, float; bf16, bf16.
template <class T, class C>
void multiply_tiled(const CpuContext& ctx, const ProductShape& shape, const T* a, const T* b, C* c,
                    const Accum<T>* bias = nullptr);

}  // namespace fivefold::cpu
