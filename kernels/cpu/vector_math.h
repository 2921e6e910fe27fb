// What lets gcc vectorise plain loops without -ffast-math: an exp of arithmetic only, sums in fixed lanes,
// and loops that promise independent elements. exp of f32 is within 1.1 ulp of the true value over the whole
// range (denormal results included; tests/kernels/vector_math_test.cpp); f64 is std::exp.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace fivefold::cpu {

// exp(-inf) = 0, exp(inf) = inf, NaN stays NaN.
inline float exp_of(float x) {
  // x = n ln 2 + r with |r| <= ln 2 / 2; n appears in the low bits of a number near 1.5 * 2^23.
  constexpr float kShift = 12582912.0f, kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  const float low = x < -104.0f ? -104.0f : x;
  const float bounded = low > 89.0f ? 89.0f : low;
  const float shifted = bounded * kLog2E + kShift;
  const float n = shifted - kShift;
  const float r = (bounded - n * kLn2High) - n * kLn2Low;
  // exp(r) = 1 + r + r^2 q(r), q fitted for the smallest largest relative error.
  float q = 0.0013814599f;
  q = q * r + 0.008368717f;
  q = q * r + 0.041668389f;
  q = q * r + 0.16666521f;
  q = q * r + 0.49999994f;
  const float e = (q * r) * r + r + 1.0f;
  // 2^n in two factors, so that results below the normal range and the overflow come out of the products.
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kShift);
  const std::int32_t half = exponent >> 1;
  const float first = std::bit_cast<float>((half + 127) << 23);
  const float second = std::bit_cast<float>((exponent - half + 127) << 23);
  return e * first * second;
}
inline double exp_of(double x) { return std::exp(x); }

// 1 / (1 + exp(-x)); relative accuracy holds at both ends.
template <class R>
R sigmoid_of(R x) {
  return R(1) / (R(1) + exp_of(-x));
}

// The sigmoid s and its slope s (1 - s), which loses no digits where s is near 1.
template <class R>
struct SigmoidSlope {
  R value, slope;
};
template <class R>
SigmoidSlope<R> sigmoid_slope_of(R x) {
  const R e = exp_of(-std::abs(x)), larger = R(1) / (R(1) + e), smaller = e * larger;
  return {x < R(0) ? smaller : larger, larger * smaller};
}

// Calls f(i) for all i of [begin, end). Elements are independent: f(i) reads and writes element i of each
// array only, so arrays may be the same memory but not shifted against each other.
template <class F>
void for_each_element(std::int64_t begin, std::int64_t end, F&& f) {
#pragma GCC ivdep
  for (std::int64_t i = begin; i < end; ++i) f(i);
}

// Sum of f(i) over [0, n) in 16 lanes that are added pairwise at the end: always in the same order.
template <class A, class F>
A lane_sum(std::int64_t n, F&& f) {
  constexpr int kLanes = 16;
  A lane[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lane[l] += f(i + l);
  for (int l = 0; i + l < n; ++l) lane[l] += f(i + l);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  return lane[0];
}

}  // namespace fivefold::cpu
