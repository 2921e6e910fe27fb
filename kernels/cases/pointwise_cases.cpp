// Cases of kernels/ops/pointwise.h.
#include <numbers>

#include "kernels/cases/place.h"
#include "kernels/cases/shapes.h"

namespace fivefold::cases {

namespace {

template <class R>
R sigmoid(R x) {
  return R(1) / (R(1) + std::exp(-x));
}

Case<SwigluForward> swiglu_forward(std::int64_t T, std::int64_t F, DType dtype) {
  Case<SwigluForward> c(str("T=", T, ",F=", F), dtype);
  c.input("x", &SwigluForward::x, {T, 2 * F}, dtype, uniform(-6, 6));
  c.output("y", &SwigluForward::y, {T, F}, dtype);
  c.formula([=](const SwigluForward&, auto& v) {
    const auto& x = v["x"];
    for (std::size_t t = 0, f_count = static_cast<std::size_t>(F); t < static_cast<std::size_t>(T); ++t)
      for (std::size_t f = 0; f < f_count; ++f) {
        const auto gate = x[t * 2 * f_count + f], up = x[t * 2 * f_count + f_count + f];
        v["y"][t * f_count + f] = gate * sigmoid(gate) * up;
      }
  });
  return c;
}

Case<SwigluBackward> swiglu_backward(std::int64_t T, std::int64_t F, DType dtype) {
  Case<SwigluBackward> c(str("T=", T, ",F=", F), dtype);
  c.input("x", &SwigluBackward::x, {T, 2 * F}, dtype, uniform(-6, 6));
  c.input("dy", &SwigluBackward::dy, {T, F}, dtype);
  c.output("dx", &SwigluBackward::dx, {T, 2 * F}, dtype);
  c.formula([=](const SwigluBackward&, auto& v) {
    const auto &x = v["x"], &dy = v["dy"];
    auto& dx = v["dx"];
    for (std::size_t t = 0, f_count = static_cast<std::size_t>(F); t < static_cast<std::size_t>(T); ++t)
      for (std::size_t f = 0; f < f_count; ++f) {
        const auto g = t * 2 * f_count + f, u = g + f_count, y = t * f_count + f;
        const auto s = sigmoid(x[g]);
        dx[g] = dy[y] * x[u] * s * (1 + x[g] * (1 - s));
        dx[u] = dy[y] * x[g] * s;
      }
  });
  c.objective = [=](const Machine& machine, const Values<double>& v) {
    auto forward = swiglu_forward(T, F, dtype);
    forward.set("x", v["x"]);
    return dot(evaluate(machine, forward)["y"], v["dy"]);
  };
  c.gradients = {{"x", "dx"}};
  c.may_share = {{"dx", "x"}};
  return c;
}

template <class R>
R gelu(R x) {
  constexpr double kRoot = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
  return R(0.5) * x * (1 + std::tanh(static_cast<R>(kRoot) * (x + R(0.044715) * x * x * x)));
}

template <class R>
R gelu_slope(R x) {
  const R root = static_cast<R>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi), cube = R(0.044715);
  const R tanh = std::tanh(root * (x + cube * x * x * x));
  return R(0.5) * (1 + tanh) + R(0.5) * x * (1 - tanh * tanh) * root * (1 + 3 * cube * x * x);
}

Case<GeluForward> gelu_forward(std::int64_t T, std::int64_t F, DType dtype) {
  Case<GeluForward> c(str("T=", T, ",F=", F), dtype);
  c.input("x", &GeluForward::x, {T, F}, dtype, uniform(-6, 6));
  c.output("y", &GeluForward::y, {T, F}, dtype);
  c.formula([](const GeluForward&, auto& v) {
    for (std::size_t i = 0; i < v["x"].size(); ++i) v["y"][i] = gelu(v["x"][i]);
  });
  return c;
}

Case<GeluBackward> gelu_backward(std::int64_t T, std::int64_t F, DType dtype) {
  Case<GeluBackward> c(str("T=", T, ",F=", F), dtype);
  c.input("x", &GeluBackward::x, {T, F}, dtype, uniform(-6, 6));
  c.input("dy", &GeluBackward::dy, {T, F}, dtype);
  c.output("dx", &GeluBackward::dx, {T, F}, dtype);
  c.formula([](const GeluBackward&, auto& v) {
    for (std::size_t i = 0; i < v["x"].size(); ++i) v["dx"][i] = v["dy"][i] * gelu_slope(v["x"][i]);
  });
  c.objective = [=](const Machine& machine, const Values<double>& v) {
    auto forward = gelu_forward(T, F, dtype);
    forward.set("x", v["x"]);
    return dot(evaluate(machine, forward)["y"], v["dy"]);
  };
  c.gradients = {{"x", "dx"}};
  c.may_share = {{"dx", "x"}, {"dx", "dy"}};
  return c;
}

Case<Add> add(std::int64_t T, std::int64_t D, DType dtype) {
  Case<Add> c(str("T=", T, ",D=", D), dtype);
  c.input("a", &Add::a, {T, D}, dtype);
  c.input("b", &Add::b, {T, D}, dtype);
  c.output("out", &Add::out, {T, D}, dtype);
  c.formula([](const Add&, auto& v) {
    for (std::size_t i = 0; i < v["a"].size(); ++i) v["out"][i] = v["a"][i] + v["b"][i];
  });
  c.may_share = {{"out", "a"}, {"out", "b"}};
  return c;
}

Case<Convert> convert(std::int64_t n, DType from, DType to, bool accumulate) {
  Case<Convert> c(str("n=", n, ",from=", from, ",accumulate=", accumulate), to);
  c.op.accumulate = accumulate;
  c.input("x", &Convert::x, {n}, from);
  if (accumulate)
    c.inout("y", &Convert::y, {n}, to);
  else
    c.output("y", &Convert::y, {n}, to);
  c.formula([](const Convert& op, auto& v) {
    using R = typename std::decay_t<decltype(v)>::Number;
    for (std::size_t i = 0; i < v["x"].size(); ++i)
      v["y"][i] = v["x"][i] + (op.accumulate ? v["y"][i] : R(0));
  });
  return c;
}

Case<Fill> fill(std::int64_t n, DType dtype, double value) {
  Case<Fill> c(str("n=", n, ",value=", value), dtype);
  c.op.value = value;
  c.output("x", &Fill::x, {n}, dtype).free_rows = true;
  c.formula([](const Fill& op, auto& v) {
    using R = typename std::decay_t<decltype(v)>::Number;
    for (auto& x : v["x"]) x = static_cast<R>(op.value);
  });
  return c;
}

std::vector<std::int64_t> counts(Scale scale) {
  if (scale == Scale::large) return {1 << 28};
  if (scale == Scale::bench) return {1 << 21};
  return {0, 1, 33, 1000};
}

}  // namespace

template <>
std::vector<Case<SwigluForward>> cases<SwigluForward>(Scale scale) {
  return over_rows<SwigluForward>(scale, swiglu_forward, kLargeFfn);
}

template <>
std::vector<Case<SwigluBackward>> cases<SwigluBackward>(Scale scale) {
  return over_rows<SwigluBackward>(scale, swiglu_backward, kLargeFfn);
}

template <>
std::vector<Case<GeluForward>> cases<GeluForward>(Scale scale) {
  return over_rows<GeluForward>(scale, gelu_forward, kLargeFfn);
}

template <>
std::vector<Case<GeluBackward>> cases<GeluBackward>(Scale scale) {
  return over_rows<GeluBackward>(scale, gelu_backward, kLargeFfn);
}

template <>
std::vector<Case<Add>> cases<Add>(Scale scale) {
  return over_rows<Add>(scale, add);
}

template <>
std::vector<Case<Convert>> cases<Convert>(Scale scale) {
  std::vector<Case<Convert>> all;
  const auto dtypes = scale == Scale::large ? std::span(kFloats).last(2) : std::span(kFloats);
  for (const auto from : dtypes)
    for (const auto to : dtypes)
      for (const auto n : counts(scale))
        for (const bool accumulate : {false, true}) all.push_back(convert(n, from, to, accumulate));
  return all;
}

template <>
std::vector<Case<Fill>> cases<Fill>(Scale scale) {
  std::vector<Case<Fill>> all;
  for (const auto dtype : floats_of(scale))
    for (const auto n : counts(scale)) all.push_back(fill(n, dtype, 0.3));
  return all;
}

}  // namespace fivefold::cases
