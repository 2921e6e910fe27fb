// Operands for timing: of any size within seconds, warm or cold.
#pragma once
#include "core/copy.h"
#include "kernels/cases/place.h"

namespace fivefold::cases {

// Integers and short operands hold the case's numbers, long floating ones repeat a run of them, outputs hold
// anything. Operands that a case derives from others (saved statistics) hold what their generator gives.
Tensor place_for_timing(const OperandInfo& info, const Machine& machine);

template <class Op>
Op bound_for_timing(const Case<Op>& c, const Machine& machine) {
  Op op = c.op;
  for (const auto& operand : c.operands) operand.of(op) = place_for_timing(operand, machine);
  return op;
}

// The same numbers in other memory.
template <class Op>
Op copied_for_timing(const Op& op, const Case<Op>& c, const Machine& machine) {
  Op out = op;
  for (const auto& operand : c.operands) {
    const Tensor from = operand.of(out);
    operand.of(out) = empty(machine.memory, operand.shape, operand.dtype, Tag::workspace, machine.stream);
    copy_bytes(operand.of(out), from, machine.stream);
  }
  return out;
}

// Bytes of a case's operands.
template <class Op>
std::int64_t operand_bytes(const Case<Op>& c) {
  std::int64_t bytes = 0;
  for (const auto& operand : c.operands) bytes += operand.shape.count() * size_of(operand.dtype);
  return bytes;
}

}  // namespace fivefold::cases
