// Without oneDNN: f32 products by OpenBLAS, none of bf16.
#include <cblas.h>

#include <limits>

#include "kernels/cpu/products_library.h"

namespace fivefold::cpu {

void multiply_f32(const ProductShape& s, const float* a, const float* b, float* c) {
  const auto order = [](bool transpose) { return transpose ? CblasTrans : CblasNoTrans; };
  const auto size = [](std::int64_t n) {
    FF_CHECK(n <= std::numeric_limits<blasint>::max(), "the BLAS takes sizes below 2^31, not ", n);
    return static_cast<blasint>(n);
  };
  cblas_sgemm(CblasRowMajor, order(s.transpose_a), order(s.transpose_b), size(s.m), size(s.n), size(s.k),
              1.0f, a, size(s.lda), b, size(s.ldb), static_cast<float>(s.beta), c, size(s.ldc));
}

struct Bf16Products::State {};

Bf16Products::Bf16Products() = default;
Bf16Products::~Bf16Products() = default;

bool Bf16Products::multiply(const ProductShape&, const bf16*, const bf16*, void*, DType, const float*) {
  return false;
}

}  // namespace fivefold::cpu
