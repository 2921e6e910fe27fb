// Operand rules and costs of element-wise ops. An exp counts as 8 operations.
#include "kernels/check.h"
#include "kernels/ops/pointwise.h"

namespace fivefold {

namespace {

double per_element(const Tensor& t, double operations) { return static_cast<double>(t.count()) * operations; }

}  // namespace

void SwigluForward::check() const {
  OperandCheck check(kName);
  check.is_floating("x", x, 2);
  check.is_floating("y", y, 2);
  check.is("x", x, {y.dim(0), 2 * y.dim(1)}, y.dtype());
}
double SwigluForward::flops() const { return per_element(y, 12); }
double SwigluForward::bytes() const { return bytes_of({&x, &y}); }

void SwigluBackward::check() const {
  OperandCheck check(kName);
  check.is_floating("x", x, 2);
  check.is_floating("dy", dy, 2);
  check.is("x", x, {dy.dim(0), 2 * dy.dim(1)}, dy.dtype());
  check.is("dx", dx, x.shape(), x.dtype());
}
double SwigluBackward::flops() const { return per_element(dy, 18); }
double SwigluBackward::bytes() const { return bytes_of({&x, &dy, &dx}); }

void GeluForward::check() const {
  OperandCheck check(kName);
  check.is_floating("x", x, 2);
  check.is("y", y, x.shape(), x.dtype());
}
double GeluForward::flops() const { return per_element(x, 16); }
double GeluForward::bytes() const { return bytes_of({&x, &y}); }

void GeluBackward::check() const {
  OperandCheck check(kName);
  check.is_floating("x", x, 2);
  check.is("dy", dy, x.shape(), x.dtype());
  check.is("dx", dx, x.shape(), x.dtype());
}
double GeluBackward::flops() const { return per_element(x, 25); }
double GeluBackward::bytes() const { return bytes_of({&x, &dy, &dx}); }

void Add::check() const {
  OperandCheck check(kName);
  check.is_floating("a", a);
  check.is("b", b, a.shape(), a.dtype());
  check.is("out", out, a.shape(), a.dtype());
}
double Add::flops() const { return per_element(a, 1); }
double Add::bytes() const { return bytes_of({&a, &b, &out}); }

void Convert::check() const {
  OperandCheck check(kName);
  check.is_floating("x", x);
  check.is_floating("y", y);
  check.require(x.count() == y.count(), "x has ", x.count(), " elements, y ", y.count());
}
double Convert::flops() const { return per_element(x, 1); }
double Convert::bytes() const { return bytes_of({&x, &y}) + (accumulate ? bytes_of({&y}) : 0.0); }

void Fill::check() const {
  OperandCheck check(kName);
  check.is_floating("x", x);
}
double Fill::flops() const { return per_element(x, 1); }
double Fill::bytes() const { return bytes_of({&x}); }

}  // namespace fivefold
