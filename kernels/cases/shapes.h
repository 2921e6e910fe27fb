// Lists that case files share.
#pragma once
#include "kernels/cases/cases.h"

namespace fivefold::cases {

inline constexpr std::array kFloats{DType::f64, DType::f32, DType::bf16};

struct Rows {
  std::int64_t rows, width;
};
// Small and odd, one element, no rows; whole vectors with a remainder; enough rows for several threads.
inline constexpr std::array<Rows, 5> kTestRows{{{5, 33}, {1, 1}, {0, 8}, {7, 64}, {41, 19}}};
// A micro-batch of the 256-wide model, and one of a wider one.
inline constexpr std::array<Rows, 2> kBenchRows{{{2048, 256}, {2048, 1024}}};

inline std::span<const Rows> rows_of(Scale scale) {
  if (scale == Scale::test) return kTestRows;
  return kBenchRows;
}

// make(rows, width, dtype) for every shape of the scale and every floating dtype.
template <class Op, class Make>
std::vector<Case<Op>> over_rows(Scale scale, Make make) {
  std::vector<Case<Op>> all;
  for (const auto dtype : kFloats)
    for (const auto& [rows, width] : rows_of(scale)) all.push_back(make(rows, width, dtype));
  return all;
}

}  // namespace fivefold::cases
