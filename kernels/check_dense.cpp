// Operand rules and costs of matrix products.
#include "kernels/check.h"
#include "kernels/ops/dense.h"

namespace fivefold {

void Gemm::check() const {
  OperandCheck check(kName);
  check.is_floating("a", a, 2);
  const auto rows = transpose_a ? a.dim(1) : a.dim(0), inner = transpose_a ? a.dim(0) : a.dim(1);
  check.is_floating("b", b, 2);
  const auto columns = transpose_b ? b.dim(0) : b.dim(1);
  check.is("b", b, transpose_b ? Shape{columns, inner} : Shape{inner, columns}, a.dtype());
  check.is_one_of("c", c, {rows, columns}, {a.dtype(), accum_dtype(a.dtype())});
  if (bias) check.is_one_of("bias", bias, {columns}, {a.dtype(), accum_dtype(a.dtype())});
}
double Gemm::flops() const {
  return 2.0 * static_cast<double>(m()) * static_cast<double>(n()) * static_cast<double>(k());
}
double Gemm::bytes() const { return bytes_of({&a, &b, &c, &bias}) + (beta != 0 ? bytes_of({&c}) : 0.0); }

void GroupedGemm::check() const {
  OperandCheck check(kName);
  check.is_floating("a", a, 2);
  check.is_floating("b", b, 2);
  check.is("offsets", offsets, DType::i32);
  check.require(offsets.shape().rank() == 1 && groups() >= 1, "offsets is ", offsets.shape(),
                ", not [groups + 1]");
  if (side == GroupedSide::weight) {
    check.is("b", b, {a.dim(0), b.dim(1)}, a.dtype());
    check.is_one_of("c", c, {groups() * a.dim(1), b.dim(1)}, {a.dtype(), accum_dtype(a.dtype())});
    return;
  }
  check.require(b.dim(0) % groups() == 0, "b has ", b.dim(0), " rows, no multiple of ", groups(), " groups");
  const auto group_rows = b.dim(0) / groups();
  const auto inner = transpose_b ? b.dim(1) : group_rows, columns = transpose_b ? group_rows : b.dim(1);
  check.is("a", a, {a.dim(0), inner}, b.dtype());
  check.is_one_of("c", c, {a.dim(0), columns}, {a.dtype(), accum_dtype(a.dtype())});
}
double GroupedGemm::flops() const {
  const auto columns = side == GroupedSide::weight ? b.dim(1) : c.dim(1);
  return 2.0 * static_cast<double>(a.count()) * static_cast<double>(columns);
}
double GroupedGemm::bytes() const {
  return bytes_of({&a, &b, &c, &offsets}) + (beta != 0 ? bytes_of({&c}) : 0.0);
}

void BiasGradient::check() const {
  OperandCheck check(kName);
  check.is_floating("dy", dy, 2);
  check.is("d_bias", d_bias, {dy.dim(1)}, accum_dtype(dy.dtype()));
}
double BiasGradient::flops() const { return static_cast<double>(dy.count()); }
double BiasGradient::bytes() const { return bytes_of({&dy, &d_bias, &d_bias}); }

}  // namespace fivefold
