// Bounds and comparisons of the op checks.
#include "tests/kernels/op_checks.h"

#include <limits>

namespace fivefold::cases {

double largest(std::span<const double> numbers) {
  double most = 0;
  for (const double x : numbers)
    if (std::isfinite(x)) most = std::max(most, std::abs(x));
  return most;
}

double ulp_of(DType dtype, double x) {
  const int digits = dtype == DType::f64 ? 53 : dtype == DType::f32 ? 24 : 8;
  int exponent = 0;
  std::frexp(x, &exponent);
  return x == 0 ? 0.0 : std::ldexp(1.0, exponent - digits);
}

namespace {

double distance(double got, double exact) {
  if (got == exact || (std::isnan(got) && std::isnan(exact))) return 0.0;
  const double d = std::abs(got - exact);
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

double largest_distance(std::span<const double> a, std::span<const double> b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, distance(a[i], b[i]));
  return most;
}

}  // namespace

double error_bound(const OperandInfo& operand, DType case_dtype, std::span<const double> exact,
                   std::span<const double> low) {
  if (operand.dtype == DType::i32 || operand.dtype == DType::i16) return 0.0;
  if (operand.dtype == DType::f64 && (case_dtype == DType::f64 || operand.in_f64))
    return 1e-12 * largest(exact);
  const auto dtype =
      operand.dtype == DType::f64 ? DType::f32 : operand.dtype;  // f64 sums of numbers computed in f32
  return 2.0 * largest_distance(low, exact) + ulp_of(dtype, largest(exact));
}

void compare_numbers(std::string_view what, std::span<const double> got, std::span<const double> exact,
                     double bound, Faults& faults) {
  std::size_t worst = 0;
  for (std::size_t i = 1; i < got.size(); ++i)
    if (distance(got[i], exact[i]) > distance(got[worst], exact[worst])) worst = i;
  if (got.empty() || distance(got[worst], exact[worst]) <= bound) return;
  faults.push_back(str(what, '[', worst, "] of ", got.size(), " is ", got[worst], ", not ", exact[worst],
                       ": error ", distance(got[worst], exact[worst]), ", bound ", bound));
}

void check_bytes(const PlacedOperand& operand, std::span<const std::byte> block, Faults& faults) {
  if (!guards_whole(operand, block)) faults.push_back(str("wrote outside of ", operand.info->name));
  const bool changed = !std::equal(block.begin(), block.end(), operand.initial.begin());
  if (operand.info->role == Role::input && changed)
    faults.push_back(str("changed the input ", operand.info->name));
}

void compare_bits(std::string_view what, const PlacedOperand& operand, std::span<const std::byte> a,
                  std::span<const std::byte> b, Faults& faults) {
  if (!std::equal(a.begin(), a.end(), b.begin(), b.end()))
    faults.push_back(str(operand.info->name, " has other bits: ", what));
}

Faults compare_gradient(std::string_view of, std::span<const double> analytic, const Values<double>& at,
                        const std::function<double(const Values<double>&)>& objective) {
  constexpr double kStep = 1e-5;
  constexpr std::size_t kMost = 300;
  Faults faults;
  auto moved = at;
  auto& x = moved[of];
  FF_CHECK_EQ(x.size(), analytic.size(), of);
  // What rounding of the objective alone can do to a difference quotient.
  const double noise =
      16 * std::numeric_limits<double>::epsilon() * std::max(1.0, std::abs(objective(at))) / kStep;
  const double bound = 1e-6 * largest(analytic) + noise;
  for (std::size_t i = 0; i < x.size(); i += 1 + x.size() / kMost) {
    const double before = x[i];
    x[i] = before + kStep;
    const double above = objective(moved);
    x[i] = before - kStep;
    const double slope = (above - objective(moved)) / (2 * kStep);
    x[i] = before;
    if (distance(analytic[i], slope) <= bound) continue;
    faults.push_back(str("gradient of ", of, '[', i, "] is ", analytic[i], ", differences give ", slope,
                         ", bound ", bound));
    return faults;
  }
  return faults;
}

}  // namespace fivefold::cases
