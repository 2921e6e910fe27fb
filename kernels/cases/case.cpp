// Number sources of operands.
#include "kernels/cases/case.h"

#include <numeric>

namespace fivefold::cases {

Generator uniform(double low, double high, std::uint64_t seed) {
  return [=](std::int64_t i) {
    return low + (high - low) * philox_uniform(1, seed, static_cast<std::uint64_t>(i));
  };
}

Generator constant(double value) {
  return [=](std::int64_t) { return value; };
}

Generator integers(std::int64_t low, std::int64_t high, std::uint64_t seed) {
  return [=, u = uniform(static_cast<double>(low), static_cast<double>(high), seed)](std::int64_t i) {
    return std::floor(u(i));
  };
}

Generator listed(std::vector<double> numbers) {
  return [numbers = std::move(numbers)](std::int64_t i) { return numbers.at(static_cast<std::size_t>(i)); };
}

double dot(std::span<const double> a, std::span<const double> b) {
  FF_CHECK_EQ(a.size(), b.size());
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace fivefold::cases
