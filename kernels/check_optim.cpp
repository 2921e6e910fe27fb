// Operand rules and costs of the optimizer's ops.
#include "kernels/check.h"
#include "kernels/ops/optim.h"

namespace fivefold {

void SquaredSum::check() const {
  OperandCheck check(kName);
  check.is_floating("x", x);
  check.is("sums", sums, DType::f64);
  check.require(0 <= index && index < sums.count(), "index ", index, " of ", sums.count(), " sums");
}
double SquaredSum::flops() const { return 2.0 * static_cast<double>(x.count()); }
double SquaredSum::bytes() const { return bytes_of({&x}) + 16.0; }

void StepControl::check() const {
  OperandCheck check(kName);
  check.is("sums", sums, DType::f64);
  check.is("control", control, {kCount}, DType::f64);
}
double StepControl::flops() const { return static_cast<double>(sums.count()) + 4.0; }
double StepControl::bytes() const { return bytes_of({&sums, &control, &control}); }

void AdamW::check() const {
  OperandCheck check(kName);
  check.is_floating("master", master, 1);
  check.require(master.dtype() != DType::bf16, "master is bf16, not f64 or f32");
  check.is("gradient", gradient, master.shape(), master.dtype());
  check.is("m", m, master.shape(), master.dtype());
  check.is("v", v, master.shape(), master.dtype());
  if (compute) check.is_one_of("compute", compute, master.shape(), {master.dtype(), DType::bf16});
  check.is("control", control, {StepControl::kCount}, DType::f64);
}
double AdamW::flops() const { return 16.0 * static_cast<double>(master.count()); }
double AdamW::bytes() const {
  return bytes_of({&master, &master, &gradient, &m, &m, &v, &v, &compute, &control});
}

}  // namespace fivefold
