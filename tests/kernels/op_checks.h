// What every op is held to, from its case objects alone. Each check returns one line per fault, none if all
// is well.
#pragma once
#include "kernels/cases/cases.h"
#include "kernels/cases/place.h"

namespace fivefold::cases {

using Faults = std::vector<std::string>;

// Largest |x|, 0 for none.
double largest(std::span<const double> numbers);
// One unit in the last place of `dtype` at |x|.
double ulp_of(DType dtype, double x);

// The error that an operand may have. f64: 1e-12 of the largest element. Lower precision: twice the error
// that the plain formula makes when it is run in f32 on the same operands and rounded to their dtypes, and
// one ulp of the operand's dtype (f32 for an f64 result that is not in_f64) at the largest element: the bound
// is measured, not chosen.
double error_bound(const OperandInfo& operand, DType case_dtype, std::span<const double> exact,
                   std::span<const double> low);

// Adds a line if `got` is further from `exact` than `bound` anywhere (NaN equals NaN, infinity itself).
void compare_numbers(std::string_view what, std::span<const double> got, std::span<const double> exact,
                     double bound, Faults& faults);
// Adds lines for torn guards and changed inputs.
void check_bytes(const PlacedOperand& operand, std::span<const std::byte> block, Faults& faults);
// Adds a line if the two blocks differ.
void compare_bits(std::string_view what, const PlacedOperand& operand, std::span<const std::byte> a,
                  std::span<const std::byte> b, Faults& faults);

using Blocks = std::vector<std::vector<std::byte>>;

template <class Op>
Blocks read_blocks(const Placed<Op>& placed, const Machine& machine) {
  Blocks blocks;
  for (const auto& operand : placed.operands) blocks.push_back(read_block(operand, machine));
  return blocks;
}

// Results of the formula in f32 with operands and results rounded to their dtypes.
template <class Op>
Values<double> low_values(const Case<Op>& c, const Values<double>& initial) {
  Values<float> low(c.dtype);
  for (const auto& operand : c.operands) {
    const auto& numbers = initial[operand.name];
    low.set(operand.name, std::vector<float>(numbers.begin(), numbers.end()));
  }
  c.low(c.op, low);
  Values<double> rounded(c.dtype);
  for (const auto& operand : c.operands) {
    std::vector<double> numbers(low[operand.name].begin(), low[operand.name].end());
    for (auto& x : numbers) x = rounded_to(operand.dtype, x);
    rounded.set(operand.name, std::move(numbers));
  }
  return rounded;
}

// An op that touches elements counts operations and bytes.
template <class Op>
void check_counts(const Case<Op>& c, const Op& op, Faults& faults) {
  const auto is_empty = [](const OperandInfo& operand) { return operand.shape.count() == 0; };
  if (std::any_of(c.operands.begin(), c.operands.end(), is_empty) || (op.flops() > 0 && op.bytes() > 0))
    return;
  faults.push_back(str("counts ", op.flops(), " operations and ", op.bytes(), " bytes"));
}

// Runs the op on every machine: results against the formula, guards, inputs, and equal bits on all machines
// and when run again.
template <class Op>
Faults check_value(const Case<Op>& c, std::span<const Machine> machines) {
  Faults faults;
  const auto initial = initial_values(c);
  auto exact = initial;
  c.exact(c.op, exact);
  const auto low = low_values(c, initial);
  Blocks first;
  for (std::size_t run = 0; run <= machines.size(); ++run) {
    const auto& machine = machines[run % machines.size()];
    const Placed<Op> placed(c, initial, machine);
    machine.backend.run(placed.op, machine.stream);
    const auto blocks = read_blocks(placed, machine);
    if (run == 0) first = blocks;
    if (run == 0) check_counts(c, placed.op, faults);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto& operand = placed.operands[i];
      const auto& name = operand.info->name;
      check_bytes(operand, blocks[i], faults);
      if (operand.info->role != Role::input)
        compare_numbers(name, numbers_of(operand, blocks[i]), exact[name],
                        error_bound(*operand.info, c.dtype, exact[name], low[name]), faults);
      if (run == machines.size() || !c.threads_change_bits)
        compare_bits(str("run ", run), operand, first[i], blocks[i], faults);
    }
  }
  return faults;
}

// The op once more with each pair of operands that may share memory in the same memory: equal bits.
template <class Op>
Faults check_sharing(const Case<Op>& c, const Machine& machine) {
  Faults faults;
  const auto initial = initial_values(c);
  const auto position = [&](std::string_view name) {
    for (std::size_t i = 0; i < c.operands.size(); ++i)
      if (c.operands[i].name == name) return i;
    fail(__FILE__, __LINE__, "no such operand", std::string(name));
  };
  for (const auto& [written, read] : c.may_share) {
    const auto w = position(written), r = position(read);
    const Placed<Op> apart(c, initial, machine);
    Placed<Op> shared(c, initial, machine);
    c.operands[w].of(shared.op) = shared.operands[r].tensor;
    machine.backend.run(apart.op, machine.stream);
    machine.backend.run(shared.op, machine.stream);
    const auto expected = read_blocks(apart, machine), got = read_blocks(shared, machine);
    for (std::size_t i = 0; i < got.size(); ++i)
      if (i != w)
        compare_bits(str(written, " shares ", read), shared.operands[i], expected[i == r ? w : i], got[i],
                     faults);
  }
  return faults;
}

// Analytic gradients against central differences of the objective, element by element (at most 300, evenly
// spread).
Faults compare_gradient(std::string_view of, std::span<const double> analytic, const Values<double>& at,
                        const std::function<double(const Values<double>&)>& objective);

template <class Op>
Faults check_gradient(const Case<Op>& c, const Machine& machine) {
  Faults faults;
  auto initial = initial_values(c);
  const auto result = evaluate(machine, c, initial);
  for (const auto& [of, is] : c.gradients)
    if (!initial.has(of)) initial.set(of, std::vector<double>(result[is].size(), 0.0));
  for (const auto& [of, is] : c.gradients) {
    auto analytic = result[is];
    for (const auto& operand : c.operands)
      for (std::size_t i = 0; operand.name == is && operand.role == Role::inout && i < analytic.size(); ++i)
        analytic[i] -= initial[is][i];
    const auto found = compare_gradient(of, analytic, initial,
                                        [&](const Values<double>& v) { return c.objective(machine, v); });
    faults.insert(faults.end(), found.begin(), found.end());
  }
  return faults;
}

// True if the op runs without an Error.
template <class Op>
bool accepts(const Op& op) {
  try {
    op.check();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// check() accepts the case and refuses: an operand of another dtype, a missing one, one with a row more.
template <class Op>
Faults check_refusals(const Case<Op>& c, const Machine& machine) {
  Faults faults;
  const Placed<Op> placed(c, initial_values(c), machine);
  if (!accepts(placed.op)) faults.push_back("the case itself is refused");
  for (const auto& operand : c.operands) {
    const auto refused = [&](const Tensor& wrong, std::string_view what) {
      auto op = placed.op;
      operand.of(op) = wrong;
      if (accepts(op)) faults.push_back(str("check() accepts ", operand.name, ' ', what));
    };
    auto longer = operand.shape;
    if (longer.rank() > 0) ++longer[0];
    const auto other = operand.dtype == DType::i32 ? DType::f32 : DType::i32;
    refused(empty(machine.memory, operand.shape, other, Tag::workspace, machine.stream), "of another dtype");
    if (!operand.optional) refused(Tensor(), "missing");
    if (!operand.free_rows)
      refused(empty(machine.memory, longer, operand.dtype, Tag::workspace, machine.stream),
              "with one more row");
  }
  return faults;
}

}  // namespace fivefold::cases
