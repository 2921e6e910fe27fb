// One op described once: operands, formula, gradients. From the same description come the value check, finite
// differences, bounds check and threads check (tests/kernels) and the timing (fivefold bench ops), on any
// backend.
#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/philox.h"
#include "core/tensor.h"

namespace fivefold::cases {

// The operands of one run by name, as plain numbers (integers too). R is double where the formula gives the
// truth, float where the same formula shows what low precision costs; then operands and results are rounded
// to their dtypes.
template <class R>
class Values {
 public:
  using Number = R;
  explicit Values(DType dtype) : dtype_(dtype) {}

  std::vector<R>& operator[](std::string_view name) { return *find(name); }
  const std::vector<R>& operator[](std::string_view name) const { return *find(name); }
  bool has(std::string_view name) const { return find_or_null(name) != nullptr; }
  void set(std::string_view name, std::vector<R> numbers) {
    numbers_[std::string(name)] = std::move(numbers);
  }
  // A rounding point that the op's header states: to the case's dtype in low precision, nothing in the truth.
  R rounded(R x) const {
    if constexpr (std::is_same_v<R, double>)
      return x;
    else
      return dtype_ == DType::bf16 ? static_cast<R>(static_cast<float>(bf16(x))) : x;
  }

 private:
  const std::vector<R>* find_or_null(std::string_view name) const {
    const auto it = numbers_.find(name);
    return it == numbers_.end() ? nullptr : &it->second;
  }
  std::vector<R>* find(std::string_view name) const {
    const auto* found = find_or_null(name);
    FF_CHECK(found, "the case has no operand ", name);
    return const_cast<std::vector<R>*>(found);
  }

  std::map<std::string, std::vector<R>, std::less<>> numbers_;
  DType dtype_;
};

// Element i of an operand before the run.
using Generator = std::function<double(std::int64_t)>;
Generator uniform(double low, double high, std::uint64_t seed = 0);
Generator constant(double value);
Generator integers(std::int64_t low, std::int64_t high, std::uint64_t seed = 0);  // low <= x < high
Generator listed(std::vector<double> numbers);

enum class Role : std::uint8_t {
  input,   // must come out unchanged
  output,  // holds NaN before the run, must be written whole
  inout    // read and written: accumulators, operands that are replaced
};

struct OperandInfo {
  std::string name;
  Role role = Role::input;
  Shape shape;
  DType dtype = DType::f32;
  Generator value;         // not of outputs
  bool optional = false;   // check() accepts the op without it
  bool free_rows = false;  // check() accepts one more row in it
  std::int64_t cuts = 0;   // tensor cores cut a sum of this operand off, not round it, so many times
  bool in_f64 = false;     // computed in f64 whatever the other dtypes are: held to the bound of f64
};

struct Machine;  // kernels/cases/place.h

template <class Op>
struct Case {
  // Where the op keeps an operand: a member, or a function for one inside a list.
  using Place = std::function<Tensor&(Op&)>;
  struct Operand : OperandInfo {
    Place of;
  };
  struct Gradient {
    std::string of,
        is;  // operand `is` holds (or has had added) the derivative of the objective by operand `of`
  };

  // `parameters` names the case, as in T=5,D=33,layer=1: no blanks, colons, dashes. `dtype` is added to the
  // name.
  Case(const std::string& parameters, DType type) : dtype(type), parameters_(parameters) {}

  std::string name() const { return str(Op::kName, "(", parameters_, ",dtype=", dtype, ")"); }
  std::string parameters() const { return parameters_; }

  OperandInfo& input(std::string name, Place of, Shape shape, DType type, Generator value = {}) {
    return add(std::move(name), std::move(of), Role::input, shape, type, std::move(value));
  }
  OperandInfo& output(std::string name, Place of, Shape shape, DType type) {
    return add(std::move(name), std::move(of), Role::output, shape, type, {});
  }
  OperandInfo& inout(std::string name, Place of, Shape shape, DType type, Generator value = {}) {
    return add(std::move(name), std::move(of), Role::inout, shape, type, std::move(value));
  }
  // Replaces what an operand holds before the run.
  void set(std::string_view name, const std::vector<double>& numbers) {
    for (auto& operand : operands)
      if (operand.name == name) operand.value = listed(numbers);
  }
  // f(op, values) computes outputs and inouts from inputs and inouts with plain loops. It is called with
  // Values<double> and Values<float>; `op` has its scalars but no tensors. Outputs come sized.
  template <class F>
  void formula(F f) {
    exact = [f](const Op& o, Values<double>& v) { f(o, v); };
    low = [f](const Op& o, Values<float>& v) { f(o, v); };
  }

  Op op;  // its scalars
  DType dtype;
  std::vector<Operand> operands;
  std::function<void(const Op&, Values<double>&)> exact;
  std::function<void(const Op&, Values<float>&)> low;
  // Fills inputs that follow from other inputs (saved statistics); runs after the operands are rounded to
  // their dtypes.
  std::function<void(const Op&, Values<double>&)> prepare;
  // Backward ops: the number whose gradients the op computes, from the operands, by running the forward op
  // (evaluate()).
  std::function<double(const Machine&, const Values<double>&)> objective;
  std::vector<Gradient> gradients;
  // Pairs {operand, operand} that may share memory; the result must not change.
  std::vector<std::pair<std::string, std::string>> may_share;
  bool threads_change_bits = false;  // results may depend on the number of threads in the last bits

 private:
  OperandInfo& add(std::string name, Place of, Role role, Shape shape, DType type, Generator value) {
    if (!value) value = uniform(-1, 1, hash_name(name));
    Operand operand;
    static_cast<OperandInfo&>(operand) = {std::move(name), role, shape, type, std::move(value)};
    operand.of = std::move(of);
    operands.push_back(std::move(operand));
    return operands.back();
  }

  std::string parameters_;
};

// Sum of products, for objectives.
double dot(std::span<const double> a, std::span<const double> b);

}  // namespace fivefold::cases
