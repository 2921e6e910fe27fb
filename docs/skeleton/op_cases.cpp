// Cases of docs/skeleton/op.h. Their declaration stands in kernels/cases/cases.h beside those of the other
// ops.
#include "docs/skeleton/op.h"
#include "kernels/cases/shapes.h"

namespace fivefold::cases {

namespace {

Case<ScaleRows> scale_rows(std::int64_t T, std::int64_t D, DType dtype) {
  Case<ScaleRows> c(str("T=", T, ",D=", D), dtype);
  c.op.factor = 0.75;
  c.input("x", &ScaleRows::x, {T, D}, dtype);
  c.output("y", &ScaleRows::y, {T, D}, dtype);
  c.formula([](const ScaleRows& op, auto& v) {
    for (std::size_t i = 0; i < v["x"].size(); ++i)
      v["y"][i] = static_cast<decltype(v["x"][i] + 0)>(op.factor) * v["x"][i];
  });
  c.may_share = {{"y", "x"}};
  return c;
}

}  // namespace

template <>
std::vector<Case<ScaleRows>> cases<ScaleRows>(Scale scale) {
  return over_rows<ScaleRows>(scale, scale_rows);
}

}  // namespace fivefold::cases
