// Matrix products of plain row-major blocks on the calling thread: the seam to the BLAS libraries. Measured
// choice (docs/kernels.md): OpenBLAS for f64, oneDNN for f32 and bf16; without oneDNN, OpenBLAS for f32 and
// widened bf16.
#pragma once
#include <memory>

#include "core/types.h"

namespace fivefold::cpu {

// c = op(a) op(b) + bias + beta c, row strides lda, ldb, ldc in elements. op(a) is [m, k], op(b) is [k, n].
struct ProductShape {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  double beta = 0.0;  // 0: c is written without being read
  auto operator<=>(const ProductShape&) const = default;
};

class Bf16Products;

// Holds what a library wants to keep between calls (compiled primitives). Safe to use from the threads of one
// parallel_for. Zero m or n does nothing; zero k leaves bias + beta c. `bias` is [n] or null.
class Products {
 public:
  Products();
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  void multiply(const ProductShape& shape, const double* a, const double* b, double* c,
                const double* bias = nullptr);
  void multiply(const ProductShape& shape, const float* a, const float* b, float* c,
                const float* bias = nullptr);
  // f32 accumulation; the second form rounds once into bf16.
  void multiply(const ProductShape& shape, const bf16* a, const bf16* b, float* c,
                const float* bias = nullptr);
  void multiply(const ProductShape& shape, const bf16* a, const bf16* b, bf16* c,
                const float* bias = nullptr);

 private:
  std::unique_ptr<Bf16Products> bf16_;
};

}  // namespace fivefold::cpu
