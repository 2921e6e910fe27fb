// Lists that case files share.
#pragma once
#include "kernels/cases/cases.h"

namespace fivefold::cases {

inline constexpr std::array kFloats{DType::f64, DType::f32, DType::bf16};

// The dtypes of a scale's cases.
inline std::span<const DType> floats_of(Scale scale) {
  return std::span(kFloats).last(scale == Scale::large ? 1 : kFloats.size());
}

struct Rows {
  std::int64_t rows, width;
};
// Small and odd, one element, no rows; whole vectors with a remainder; enough rows for several threads.
inline constexpr std::array<Rows, 5> kTestRows{{{5, 33}, {1, 1}, {0, 8}, {7, 64}, {41, 19}}};
// Rows that a block takes two of, rows of one pack more than a block of 512 threads has, or than two such.
inline constexpr std::array<Rows, 3> kEdgeRows{{{270, 4096}, {13, 4104}, {5, 8200}}};
// A micro-batch of the 256-wide model, and one of a wider one.
inline constexpr std::array<Rows, 2> kBenchRows{{{2048, 256}, {2048, 1024}}};

// Four sequences of 4096 tokens, of models of 1, 3 and 8 billion parameters, and their hidden layers.
inline constexpr std::int64_t kLargeRows = 16384;
inline constexpr std::array<Rows, 3> kLargeWidths{
    {{kLargeRows, 2048}, {kLargeRows, 3072}, {kLargeRows, 4096}}};
inline constexpr std::array<Rows, 2> kLargeFfn{{{kLargeRows, 8192}, {kLargeRows, 14336}}};

inline std::span<const Rows> rows_of(Scale scale, std::span<const Rows> large = kLargeWidths) {
  if (scale == Scale::large) return large;
  if (scale == Scale::test) return kTestRows;
  if (scale == Scale::edges) return kEdgeRows;
  return kBenchRows;
}

// make(rows, width, dtype) for every shape of the scale and every dtype of it.
template <class Op, class Make>
std::vector<Case<Op>> over_rows(Scale scale, Make make, std::span<const Rows> large = kLargeWidths) {
  std::vector<Case<Op>> all;
  for (const auto dtype : floats_of(scale))
    for (const auto& [rows, width] : rows_of(scale, large)) all.push_back(make(rows, width, dtype));
  return all;
}

}  // namespace fivefold::cases
