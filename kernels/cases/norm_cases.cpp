// Cases of kernels/ops/norm.h.
#include "kernels/cases/place.h"
#include "kernels/cases/shapes.h"

namespace fivefold::cases {

namespace {

struct Kind {
  bool layer, around;  // LayerNorm; with delta (forward) or residual (backward)
  bool wide_weight;    // weight in the accumulate dtype
};

// Statistics of row t of x: {mean (0 for RMSNorm), 1 / deviation}.
template <class R>
std::pair<R, R> statistics(const std::vector<R>& x, std::size_t t, std::size_t width, bool layer,
                           double eps) {
  R mean = 0, squares = 0;
  for (std::size_t d = 0; layer && d < width; ++d) mean += x[t * width + d] / static_cast<R>(width);
  for (std::size_t d = 0; d < width; ++d) squares += (x[t * width + d] - mean) * (x[t * width + d] - mean);
  return {mean, 1 / std::sqrt(squares / static_cast<R>(width) + static_cast<R>(eps))};
}

std::string described(std::int64_t T, std::int64_t D, Kind kind) {
  return str("T=", T, ",D=", D, ",layer=", kind.layer, ",around=", kind.around,
             ",wide_weight=", kind.wide_weight);
}

Case<NormForward> norm_forward(std::int64_t T, std::int64_t D, DType dtype, Kind kind) {
  using Op = NormForward;
  const auto weight_type = kind.wide_weight ? accum_dtype(dtype) : dtype;
  Case<Op> c(described(T, D, kind), dtype);
  c.op.layer = kind.layer;
  c.input("x", &Op::x, {T, D}, dtype);
  c.input("weight", &Op::weight, {D}, weight_type, uniform(0.5, 2));
  c.output("y", &Op::y, {T, D}, dtype);
  c.output("rstd", &Op::rstd, {T}, accum_dtype(dtype));
  if (kind.around) {
    c.input("delta", &Op::delta, {T, D}, dtype);
    c.output("sum", &Op::sum, {T, D}, dtype);
    c.may_share = {{"sum", "x"}, {"sum", "delta"}};
  }
  if (kind.layer) {
    c.input("bias", &Op::bias, {D}, weight_type);
    c.output("mean", &Op::mean, {T}, accum_dtype(dtype));
  }
  c.formula([=](const Op& op, auto& v) {
    const auto width = static_cast<std::size_t>(D);
    auto rows = v["x"];
    for (std::size_t i = 0; kind.around && i < rows.size(); ++i)
      rows[i] = v["sum"][i] = v.rounded(rows[i] + v["delta"][i]);
    for (std::size_t t = 0; t < static_cast<std::size_t>(T); ++t) {
      const auto [mean, rstd] = statistics(rows, t, width, kind.layer, op.eps);
      v["rstd"][t] = rstd;
      if (kind.layer) v["mean"][t] = mean;
      for (std::size_t d = 0; d < width; ++d) {
        const auto scaled = (rows[t * width + d] - mean) * rstd * v["weight"][d];
        v["y"][t * width + d] = kind.layer ? scaled + v["bias"][d] : scaled;
      }
    }
  });
  return c;
}

void fill_statistics(const NormBackward& op, Values<double>& v) {
  const auto width = v["weight"].size();
  for (std::size_t t = 0; t < v["rstd"].size(); ++t) {
    const auto [mean, rstd] = statistics(v["x"], t, width, op.layer, 1e-5);
    v["rstd"][t] = rstd;
    if (op.layer) v["mean"][t] = mean;
  }
}

template <class V>
void backward_formula(const NormBackward& op, V& v) {
  using R = typename V::Number;
  const auto &x = v["x"], &dy = v["dy"], &weight = v["weight"];
  auto &dx = v["dx"], &d_weight = v["d_weight"];
  const auto width = weight.size();
  for (std::size_t t = 0; t < v["rstd"].size(); ++t) {
    const R rstd = v["rstd"][t], mean = op.layer ? v["mean"][t] : R(0);
    R along = 0, average = 0;
    for (std::size_t d = 0; d < width; ++d) {
      const auto i = t * width + d;
      const R normal = (x[i] - mean) * rstd, g = dy[i] * weight[d];
      along += g * normal / static_cast<R>(width);
      if (op.layer) average += g / static_cast<R>(width);
      d_weight[d] += dy[i] * normal;
      if (op.layer) v["d_bias"][d] += dy[i];
    }
    for (std::size_t d = 0; d < width; ++d) {
      const auto i = t * width + d;
      const R normal = (x[i] - mean) * rstd, g = dy[i] * weight[d];
      dx[i] = rstd * (g - normal * along - average) + (v.has("residual") ? v["residual"][i] : R(0));
    }
  }
}

Case<NormBackward> norm_backward(std::int64_t T, std::int64_t D, DType dtype, Kind kind) {
  using Op = NormBackward;
  const auto accum = accum_dtype(dtype);
  Case<Op> c(described(T, D, kind), dtype);
  c.op.layer = kind.layer;
  c.input("x", &Op::x, {T, D}, dtype);
  c.input("weight", &Op::weight, {D}, kind.wide_weight ? accum : dtype, uniform(0.5, 2));
  c.input("rstd", &Op::rstd, {T}, accum);
  c.input("dy", &Op::dy, {T, D}, dtype);
  c.output("dx", &Op::dx, {T, D}, dtype);
  c.inout("d_weight", &Op::d_weight, {D}, accum);
  c.gradients = {{"x", "dx"}, {"weight", "d_weight"}};
  c.may_share = {{"dx", "dy"}};
  if (kind.around) {
    c.input("residual", &Op::residual, {T, D}, dtype).optional = true;
    c.may_share.push_back({"dx", "residual"});
  }
  if (kind.layer) {
    c.input("mean", &Op::mean, {T}, accum);
    c.inout("d_bias", &Op::d_bias, {D}, accum);
    c.gradients.push_back({"bias", "d_bias"});
  }
  c.prepare = fill_statistics;
  c.formula([](const Op& op, auto& v) { backward_formula(op, v); });
  c.objective = [=](const Machine& machine, const Values<double>& v) {
    auto forward = norm_forward(T, D, dtype, {kind.layer, false, kind.wide_weight});
    forward.set("x", v["x"]);
    forward.set("weight", v["weight"]);
    if (kind.layer) forward.set("bias", v["bias"]);
    const double around = kind.around ? dot(v["residual"], v["x"]) : 0.0;
    return around + dot(evaluate(machine, forward)["y"], v["dy"]);
  };
  return c;
}

template <class Op, class Make>
std::vector<Case<Op>> over_kinds(Scale scale, Make make) {
  std::vector<Case<Op>> all;
  if (scale == Scale::edges) {
    for (const auto dtype : kFloats)
      for (const auto& [rows, width] : rows_of(scale)) {
        all.push_back(make(rows, width, dtype, Kind{false, true, false}));
        all.push_back(make(rows, width, dtype, Kind{true, true, true}));
      }
    return all;
  }
  if (scale == Scale::large) {
    for (const bool around : {false, true})
      for (const auto& [rows, width] : rows_of(scale))
        all.push_back(make(rows, width, DType::bf16, Kind{false, around, true}));
    return all;
  }
  for (const bool layer : {false, true})
    for (const bool around : {false, true})
      for (const auto dtype : kFloats)
        for (const auto& [rows, width] : rows_of(scale)) {
          all.push_back(make(rows, width, dtype, Kind{layer, around, false}));
          if (dtype == DType::bf16) all.push_back(make(rows, width, dtype, Kind{layer, around, true}));
        }
  return all;
}

}  // namespace

template <>
std::vector<Case<NormForward>> cases<NormForward>(Scale scale) {
  return over_kinds<NormForward>(scale, norm_forward);
}

template <>
std::vector<Case<NormBackward>> cases<NormBackward>(Scale scale) {
  return over_kinds<NormBackward>(scale, norm_backward);
}

}  // namespace fivefold::cases
