// Empty products, bias, f64 products by OpenBLAS, and bf16 products widened to f32 where no library has them.
#include "kernels/cpu/products.h"

#include <cblas.h>

#include <limits>
#include <vector>

#include "kernels/cpu/accum.h"
#include "kernels/cpu/products_library.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {

namespace {

void multiply_f64(const ProductShape& s, const double* a, const double* b, double* c) {
  const auto order = [](bool transpose) { return transpose ? CblasTrans : CblasNoTrans; };
  const auto size = [](std::int64_t n) {
    FF_CHECK(n <= std::numeric_limits<blasint>::max(), "the BLAS takes sizes below 2^31, not ", n);
    return static_cast<blasint>(n);
  };
  cblas_dgemm(CblasRowMajor, order(s.transpose_a), order(s.transpose_b), size(s.m), size(s.n), size(s.k), 1.0,
              a, size(s.lda), b, size(s.ldb), s.beta, c, size(s.ldc));
}

// c = beta c + bias.
template <class C, class A>
void scale_and_add(const ProductShape& s, A beta, C* c, const A* bias) {
  for (std::int64_t i = 0; i < s.m; ++i)
    for_each_element(0, s.n, [=, row = c + i * s.ldc](std::int64_t j) {
      const A before = beta == A(0) ? A(0) : beta * static_cast<A>(row[j]);
      row[j] = static_cast<C>(bias ? before + bias[j] : before);
    });
}

// The product where sizes are not zero, else beta c; then the bias.
template <class T, class Multiply>
void multiply_whole(const ProductShape& s, const T* a, const T* b, T* c, const T* bias, Multiply multiply) {
  if (s.m == 0 || s.n == 0) return;
  if (s.k == 0) return scale_and_add(s, static_cast<T>(s.beta), c, bias);
  multiply(s, a, b, c);
  if (bias) scale_and_add(s, T(1), c, bias);
}

std::vector<float> widened(const bf16* x, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  std::vector<float> wide(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i)
    std::copy(x + i * stride, x + i * stride + columns, wide.begin() + i * columns);
  return wide;
}

template <class C>
void multiply_widened(const ProductShape& s, const bf16* a, const bf16* b, C* c, const float* bias) {
  const auto wide_a = s.transpose_a ? widened(a, s.k, s.m, s.lda) : widened(a, s.m, s.k, s.lda);
  const auto wide_b = s.transpose_b ? widened(b, s.n, s.k, s.ldb) : widened(b, s.k, s.n, s.ldb);
  std::vector<float> product(static_cast<std::size_t>(s.m * s.n));
  ProductShape dense = s;
  dense.lda = s.transpose_a ? s.m : s.k;
  dense.ldb = s.transpose_b ? s.k : s.n;
  dense.ldc = s.n;
  dense.beta = 0.0;
  multiply_f32(dense, wide_a.data(), wide_b.data(), product.data());
  const auto beta = static_cast<float>(s.beta);
  for (std::int64_t i = 0; i < s.m; ++i)
    for_each_element(0, s.n, [=, row = c + i * s.ldc, sum = product.data() + i * s.n](std::int64_t j) {
      const float before = beta == 0.0f ? 0.0f : beta * static_cast<float>(row[j]);
      row[j] = static_cast<C>(sum[j] + before + (bias ? bias[j] : 0.0f));
    });
}

template <class C>
void multiply_bf16(Bf16Products& library, const ProductShape& s, const bf16* a, const bf16* b, C* c,
                   const float* bias) {
  if (s.m == 0 || s.n == 0) return;
  if (s.k == 0) return scale_and_add(s, static_cast<float>(s.beta), c, bias);
  if (!library.multiply(s, a, b, c, dtype_of<C>(), bias)) multiply_widened(s, a, b, c, bias);
}

}  // namespace

Products::Products() : bf16_(std::make_unique<Bf16Products>()) {
  // OpenBLAS keeps one process-wide thread count; products run on the calling thread, and ops cut them
  // themselves.
  openblas_set_num_threads(1);
}
Products::~Products() = default;

void Products::multiply(const ProductShape& s, const double* a, const double* b, double* c,
                        const double* bias) {
  multiply_whole(s, a, b, c, bias, multiply_f64);
}
void Products::multiply(const ProductShape& s, const float* a, const float* b, float* c, const float* bias) {
  multiply_whole(s, a, b, c, bias, multiply_f32);
}
void Products::multiply(const ProductShape& s, const bf16* a, const bf16* b, float* c, const float* bias) {
  multiply_bf16(*bf16_, s, a, b, c, bias);
}
void Products::multiply(const ProductShape& s, const bf16* a, const bf16* b, bf16* c, const float* bias) {
  multiply_bf16(*bf16_, s, a, b, c, bias);
}

}  // namespace fivefold::cpu
