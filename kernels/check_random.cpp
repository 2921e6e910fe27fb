// What RandomNormal asks of its operand.
#include "kernels/check.h"
#include "kernels/ops/random.h"

namespace fivefold {

void RandomNormal::check() const {
  OperandCheck check(kName);
  check.is_floating("x", x);
  check.require(x.shape().rank() == 2, "x is [R, C], not ", x.shape());
  check.require(first >= 0 && stride >= 0, "first ", first, " and stride ", stride, " are no places");
}
// Multiplied by the spread, added to the mean; the generator's integers are not counted.
double RandomNormal::flops() const { return 2 * static_cast<double>(x.count()); }
double RandomNormal::bytes() const { return static_cast<double>(x.bytes()); }

}  // namespace fivefold
