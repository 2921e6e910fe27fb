// Boxes of a larger tensor, one of them behind 2^32 elements.
#include "core/philox.h"
#include "kernels/cases/cases.h"
#include "kernels/cases/shapes.h"

namespace fivefold::cases {

namespace {

Case<RandomNormal> random(std::int64_t rows, std::int64_t columns, std::int64_t first, DType dtype) {
  Case<RandomNormal> c(str("R=", rows, ",C=", columns, ",first=", first), dtype);
  c.op.seed = 7;
  c.op.sequence = hash_name("a.weight");
  c.op.first = first;
  c.op.stride = columns + 3;
  c.op.mean = 0.25;
  c.op.spread = 0.02;
  c.output("x", &RandomNormal::x, {rows, columns}, dtype).free_rows = true;
  c.formula([columns](const RandomNormal& op, auto& v) {
    using R = typename std::decay_t<decltype(v)>::Number;
    for (std::size_t i = 0; i < v["x"].size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const auto place = op.first + at / columns * op.stride + at % columns;
      v["x"][i] = static_cast<R>(
          op.mean + op.spread * philox_normal(op.seed, op.sequence, static_cast<std::uint64_t>(place)));
    }
  });
  return c;
}

}  // namespace

template <>
std::vector<Case<RandomNormal>> cases<RandomNormal>(Scale scale) {
  std::vector<Case<RandomNormal>> all;
  for (const auto dtype : floats_of(scale)) {
    if (scale != Scale::test) {
      all.push_back(random(4096, 1024, 0, dtype));
      continue;
    }
    for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{0, 5}, {1, 1}, {7, 33}})
      all.push_back(random(rows, columns, 5, dtype));
    all.push_back(random(3, 130, (std::int64_t{1} << 33) + 1, dtype));
  }
  return all;
}

}  // namespace fivefold::cases
