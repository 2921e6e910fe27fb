// Operand rules and costs of ScaleRows.
#include "docs/skeleton/op.h"
#include "kernels/check.h"

namespace fivefold {

void ScaleRows::check() const {
  OperandCheck check(kName);
  check.is_floating("x", x, 2);
  check.is("y", y, x.shape(), x.dtype());
}
double ScaleRows::flops() const { return static_cast<double>(x.count()); }
double ScaleRows::bytes() const { return bytes_of({&x, &y}); }

}  // namespace fivefold
