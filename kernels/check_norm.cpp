// Operand rules and costs of normalisation.
#include "kernels/check.h"
#include "kernels/ops/norm.h"

namespace fivefold {

void NormForward::check() const {
  OperandCheck check(kName);
  check.is_floating("x", x, 2);
  const auto dtype = x.dtype();
  const Shape vector{x.dim(1)}, column{x.dim(0)};
  if (delta) {
    check.is("delta", delta, x.shape(), dtype);
    check.is("sum", sum, x.shape(), dtype);
  }
  if (!delta) check.is_absent("sum", sum, "without delta");
  check.is_one_of("weight", weight, vector, {dtype, accum_dtype(dtype)});
  check.is("y", y, x.shape(), dtype);
  check.is("rstd", rstd, column, accum_dtype(dtype));
  if (layer) {
    check.is("bias", bias, vector, weight.dtype());
    check.is("mean", mean, column, accum_dtype(dtype));
  } else {
    check.is_absent("bias", bias, "to an RMSNorm");
    check.is_absent("mean", mean, "to an RMSNorm");
  }
}
double NormForward::flops() const {
  return static_cast<double>(x.count()) * (4.0 + (delta ? 1.0 : 0.0) + (layer ? 3.0 : 0.0));
}
double NormForward::bytes() const { return bytes_of({&x, &delta, &sum, &weight, &bias, &y, &mean, &rstd}); }

void NormBackward::check() const {
  OperandCheck check(kName);
  check.is_floating("x", x, 2);
  const auto dtype = x.dtype(), accum = accum_dtype(x.dtype());
  const Shape vector{x.dim(1)}, column{x.dim(0)};
  check.is_one_of("weight", weight, vector, {dtype, accum});
  check.is("rstd", rstd, column, accum);
  check.is("dy", dy, x.shape(), dtype);
  check.is("dx", dx, x.shape(), dtype);
  if (residual) check.is("residual", residual, x.shape(), dtype);
  check.is("d_weight", d_weight, vector, accum);
  if (layer) {
    check.is("mean", mean, column, accum);
    check.is("d_bias", d_bias, vector, accum);
  } else {
    check.is_absent("mean", mean, "to an RMSNorm");
    check.is_absent("d_bias", d_bias, "to an RMSNorm");
  }
}
double NormBackward::flops() const { return static_cast<double>(x.count()) * (layer ? 14.0 : 10.0); }
double NormBackward::bytes() const {
  return bytes_of({&x, &weight, &mean, &rstd, &dy, &residual, &dx, &d_weight, &d_weight, &d_bias, &d_bias});
}

}  // namespace fivefold
