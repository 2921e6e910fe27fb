// Operand rules and costs of the moves between rows of heads and parts.
#include "kernels/check.h"
#include "kernels/ops/heads.h"

namespace fivefold {

namespace {

void check_parts(OperandCheck& check, const Tensor& rows, const Tensor& parts) {
  check.is_floating("rows", rows, 3);
  check.is_floating("parts", parts, 4);
  check.is_one_of("parts", parts, {parts.dim(0), rows.dim(0), parts.dim(2), rows.dim(2)},
                  {rows.dtype(), accum_dtype(rows.dtype())});
  const auto places = parts.dim(0) * parts.dim(2), heads = rows.dim(1);
  check.require(heads > 0 && places > 0 && places % heads == 0, "parts hold ", places,
                " heads, no multiple of the ", heads, " of rows");
}

}  // namespace

void HeadsToParts::check() const {
  OperandCheck check(kName);
  check_parts(check, rows, parts);
  check.is("parts", parts, rows.dtype());
}
double HeadsToParts::flops() const { return static_cast<double>(parts.count()); }
double HeadsToParts::bytes() const { return bytes_of({&rows, &parts}); }

void PartsToHeads::check() const {
  OperandCheck check(kName);
  check_parts(check, rows, parts);
}
double PartsToHeads::flops() const { return static_cast<double>(parts.count()); }
double PartsToHeads::bytes() const { return bytes_of({&parts, &rows}); }

}  // namespace fivefold
