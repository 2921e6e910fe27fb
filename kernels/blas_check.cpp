// The operands are small integers, so every product is exact in every dtype and the comparison needs no
// tolerance.
#include "kernels/blas_check.h"

#include <vector>

#include "core/philox.h"
#include "core/transfer.h"

namespace fivefold {

namespace {

struct Product {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
};

struct Factor {
  std::int64_t rows, columns;
  bool transpose;
  std::vector<double> numbers;  // as stored: transposed if `transpose`

  Factor(std::int64_t r, std::int64_t c, bool t, std::uint64_t seed)
      : rows(r), columns(c), transpose(t), numbers(static_cast<std::size_t>(r * c)) {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = std::floor(5 * philox_uniform(seed, 0, i)) - 2;
  }
  double at(std::int64_t r, std::int64_t c) const {
    return numbers[static_cast<std::size_t>(transpose ? c * rows + r : r * columns + c)];
  }
  Shape shape() const { return transpose ? Shape{columns, rows} : Shape{rows, columns}; }
};

void check_product(const Product& p, DType dtype, Backend& backend, Memory& memory, Stream& stream) {
  const Factor a(p.m, p.k, p.transpose_a, 1), b(p.k, p.n, p.transpose_b, 2);
  const auto c = empty(memory, {p.m, p.n}, accum_dtype(dtype), Tag::workspace, stream);
  backend.run(Gemm{.a = upload(memory, a.numbers, a.shape(), dtype, Tag::workspace, stream),
                   .b = upload(memory, b.numbers, b.shape(), dtype, Tag::workspace, stream),
                   .c = c,
                   .bias = {},
                   .transpose_a = p.transpose_a,
                   .transpose_b = p.transpose_b},
              stream);
  const auto got = to_host(c, stream);
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < p.k; ++k) sum += a.at(i, k) * b.at(k, j);
      const double found = got[static_cast<std::size_t>(i * p.n + j)];
      if (found == sum) continue;
      throw Error(str("the matrix products of this machine are wrong: ", dtype, " [", p.m, ", ", p.k, "]",
                      p.transpose_a ? "^T" : "", " x [", p.k, ", ", p.n, "]", p.transpose_b ? "^T" : "",
                      " gives ", found, " at (", i, ", ", j, "), not ", sum,
                      "; install another BLAS, or set OPENBLAS_CORETYPE to an older processor"));
    }
}

}  // namespace

void check_blas(Backend& backend, Memory& memory, Stream& stream) {
  for (const auto dtype : {DType::f64, DType::f32, DType::bf16})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        check_product({1, 1, 1, ta, tb}, dtype, backend, memory, stream);
        check_product({17, 33, 65, ta, tb}, dtype, backend, memory, stream);
        check_product({67, 41, 130, ta, tb}, dtype, backend, memory, stream);
      }
}

}  // namespace fivefold
