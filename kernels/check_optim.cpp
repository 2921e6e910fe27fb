// Operand rules and costs of the optimizer's ops.
#include "kernels/check.h"
#include "kernels/ops/optim.h"

namespace fivefold {

namespace {

// Throws unless the weight is stored in one of the forms.
void check_weight(OperandCheck& check, const StoredMaster& w) {
  if (!w.master && w.copy) {
    check.is_one_of("copy", w.copy, {w.copy.count()}, {DType::bf16});
    check.is("remainder", w.remainder, w.copy.shape(), DType::i16);
    return;
  }
  check.is_floating("master", w.master, 1);
  check.is_absent("remainder", w.remainder, "with a master that needs none");
  if (!w.copy) return;
  check.require(w.master.dtype() != DType::bf16, "a bf16 master is what the model computes in: no copy");
  check.is_one_of("copy", w.copy, w.master.shape(), {w.master.dtype(), DType::bf16});
}

// State beside the weight: the arithmetic's dtype, or bf16 where that is f32.
void check_state(OperandCheck& check, std::string_view name, const Tensor& t, const StoredMaster& w) {
  const auto full = w.arithmetic();
  check.is_one_of(name, t, w.largest().shape(), {full, full == DType::f32 ? DType::bf16 : full});
}

void check_value(OperandCheck& check, const Tensor& value, const StoredMaster& w) {
  check_weight(check, w);
  check.is("value", value, w.largest().shape(), w.arithmetic());
}

double stored_bytes(const StoredMaster& w) { return bytes_of({&w.master, &w.copy, &w.remainder}); }

// What is read to know the master: a separate copy is not.
double master_bytes(const StoredMaster& w) {
  return w.master ? bytes_of({&w.master}) : bytes_of({&w.copy, &w.remainder});
}

}  // namespace

void SquaredSum::check() const {
  OperandCheck check(kName);
  check.is("sums", sums, DType::f64);
  std::int64_t after = -1;
  for (const auto& part : parts) {
    check.is_floating("x", part.x);
    check.require(part.index > after && part.index < sums.count(), "index ", part.index, " after ", after,
                  " of ", sums.count(), " sums");
    after = part.index;
  }
}
double SquaredSum::flops() const {
  double n = 0;
  for (const auto& part : parts) n += static_cast<double>(part.x.count());
  return 2 * n;
}
double SquaredSum::bytes() const {
  double n = 0;
  for (const auto& part : parts) n += bytes_of({&part.x}) + 16;
  return n;
}

void StepControl::check() const {
  OperandCheck check(kName);
  check.is("sums", sums, DType::f64);
  check.is("control", control, {kCount}, DType::f64);
}
double StepControl::flops() const { return static_cast<double>(sums.count()) + 4.0; }
double StepControl::bytes() const { return bytes_of({&sums, &control, &control}); }

void AdamW::check() const {
  OperandCheck check(kName);
  check.is("control", control, {StepControl::kCount}, DType::f64);
  for (const auto& part : parts) {
    check_weight(check, part.weight);
    check_state(check, "gradient", part.gradient, part.weight);
    check_state(check, "m", part.m, part.weight);
    check.is("v", part.v, part.m.shape(), part.m.dtype());
  }
}
double AdamW::flops() const {
  double n = 0;
  for (const auto& part : parts) n += static_cast<double>(part.m.count());
  return 16 * n;
}
double AdamW::bytes() const {
  double n = bytes_of({&control});
  for (const auto& part : parts)
    n += master_bytes(part.weight) + stored_bytes(part.weight) +
         bytes_of({&part.gradient, &part.m, &part.m, &part.v, &part.v});
  return n;
}

void ReadMaster::check() const {
  OperandCheck check(kName);
  check_value(check, value, weight);
}
double ReadMaster::flops() const { return static_cast<double>(value.count()); }
double ReadMaster::bytes() const { return master_bytes(weight) + bytes_of({&value}); }

void WriteMaster::check() const {
  OperandCheck check(kName);
  check_value(check, value, weight);
}
double WriteMaster::flops() const { return static_cast<double>(value.count()); }
double WriteMaster::bytes() const { return stored_bytes(weight) + bytes_of({&value}); }

}  // namespace fivefold
