// Puts a case's operands into a backend's memory, each inside a guarded block, and reads them back as
// numbers.
#pragma once
#include "kernels/backend.h"
#include "kernels/cases/case.h"

namespace fivefold::cases {

// Where ops run.
struct Machine {
  Backend& backend;
  Memory& memory;
  Stream& stream;
};

enum class Placing : std::uint8_t {
  guarded,  // one element off an aligned address, as rows of an odd width may lie
  aligned   // as tensors of their own lie, for timing
};

// One operand in memory, between two guards of a fixed pattern.
struct PlacedOperand {
  const OperandInfo* info = nullptr;
  std::int64_t front = 0;  // bytes before the first element
  Tensor block;            // u8: guard, elements, guard
  Tensor tensor;
  std::vector<std::byte> initial;  // the block before the run
};

PlacedOperand place(const OperandInfo& info, std::span<const double> numbers, const Machine& machine,
                    Placing placing);
std::vector<std::byte> read_block(const PlacedOperand& operand, const Machine& machine);
// Elements of a block as numbers.
std::vector<double> numbers_of(const PlacedOperand& operand, std::span<const std::byte> block);
// True where the pattern before and behind the elements is whole.
bool guards_whole(const PlacedOperand& operand, std::span<const std::byte> block);

// x as the dtype holds it.
double rounded_to(DType dtype, double x);

// Operands before the run, rounded to their dtypes, prepare() applied. Outputs are zeros of the right size.
template <class Op>
Values<double> initial_values(const Case<Op>& c) {
  Values<double> v(c.dtype);
  const auto round_all = [&] {
    for (const auto& operand : c.operands)
      for (auto& x : v[operand.name]) x = rounded_to(operand.dtype, x);
  };
  for (const auto& operand : c.operands) {
    std::vector<double> numbers(static_cast<std::size_t>(operand.shape.count()));
    for (std::size_t i = 0; i < numbers.size() && operand.role != Role::output; ++i)
      numbers[i] = operand.value(static_cast<std::int64_t>(i));
    v.set(operand.name, std::move(numbers));
  }
  round_all();
  if (c.prepare) c.prepare(c.op, v);
  round_all();
  return v;
}

// A case's op bound to operands in memory.
template <class Op>
struct Placed {
  Op op;
  std::vector<PlacedOperand> operands;  // in the order of the case's

  Placed(const Case<Op>& c, const Values<double>& values, const Machine& machine,
         Placing placing = Placing::guarded)
      : op(c.op) {
    for (const auto& operand : c.operands) {
      operands.push_back(place(operand, values[operand.name], machine, placing));
      operand.of(op) = operands.back().tensor;
    }
  }
  Values<double> read(const Case<Op>& c, const Machine& machine) const {
    Values<double> v(c.dtype);
    for (const auto& operand : operands)
      v.set(operand.info->name, numbers_of(operand, read_block(operand, machine)));
    return v;
  }
};

// Runs a case's op once on operands that hold `values` and returns all operands afterwards.
template <class Op>
Values<double> evaluate(const Machine& machine, const Case<Op>& c, const Values<double>& values) {
  Placed<Op> placed(c, values, machine);
  machine.backend.run(placed.op, machine.stream);
  return placed.read(c, machine);
}
template <class Op>
Values<double> evaluate(const Machine& machine, const Case<Op>& c) {
  return evaluate(machine, c, initial_values(c));
}

}  // namespace fivefold::cases
