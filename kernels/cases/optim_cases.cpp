// Cases of kernels/ops/optim.h.
#include <limits>

#include "kernels/cases/place.h"
#include "kernels/cases/shapes.h"

namespace fivefold::cases {

namespace {

Case<SquaredSum> squared_sum(std::int64_t n, DType dtype, double scale) {
  Case<SquaredSum> c(str("n=", n, ",scale=", scale), dtype);
  c.op.index = 2;
  c.input("x", &SquaredSum::x, {n}, dtype, uniform(-scale, scale)).free_rows = true;
  auto& sums = c.inout("sums", &SquaredSum::sums, {4}, DType::f64);
  sums.free_rows = sums.in_f64 = true;
  c.formula([](const SquaredSum& op, auto& v) {
    auto& sum = v["sums"][static_cast<std::size_t>(op.index)];
    for (const auto x : v["x"]) sum += x * x;
  });
  return c;
}

struct ControlKind {
  std::string name;
  std::vector<double> sums;
  double clip;
};

Case<StepControl> step_control(const ControlKind& kind) {
  Case<StepControl> c(str("sums=", kind.name, ",clip=", kind.clip), DType::f64);
  c.op.clip = kind.clip;
  c.input("sums", &StepControl::sums, {static_cast<std::int64_t>(kind.sums.size())}, DType::f64,
          listed(kind.sums))
      .free_rows = true;
  c.inout("control", &StepControl::control, {StepControl::kCount}, DType::f64, listed({-1, -1, -1, 6, 2}));
  c.formula([](const StepControl& op, auto& v) {
    using R = typename std::decay_t<decltype(v)>::Number;
    R total = 0;
    for (const auto s : v["sums"]) total += s;
    auto& control = v["control"];
    const bool finite = total - total == R(0);
    control[StepControl::kNorm] = std::sqrt(total);
    const R limited = static_cast<R>(op.clip) / (std::sqrt(total) + R(1e-6));
    control[StepControl::kFactor] = op.clip > 0 && limited < R(1) ? limited : R(1);
    control[StepControl::kApply] = finite ? 1 : 0;
    control[finite ? StepControl::kStep : StepControl::kSkipped] += 1;
  });
  return c;
}

struct AdamKind {
  DType compute;  // of the copy; the master's own dtype: a copy as well
  bool copy;
  double step, apply;
};

Case<AdamW> adamw(std::int64_t n, DType dtype, AdamKind kind) {
  Case<AdamW> c(str("n=", n, ",compute=", kind.copy ? name_of(kind.compute) : "none", ",step=", kind.step,
                    ",apply=", kind.apply),
                dtype);
  c.op.lr = 0.01;
  c.op.weight_decay = 0.1;
  c.inout("master", &AdamW::master, {n}, dtype);
  c.input("gradient", &AdamW::gradient, {n}, dtype);
  c.inout("m", &AdamW::m, {n}, dtype, uniform(-0.1, 0.1, 3));
  c.inout("v", &AdamW::v, {n}, dtype, uniform(0, 0.01, 4));
  if (kind.copy && kind.apply != 0)
    c.output("compute", &AdamW::compute, {n}, kind.compute).optional = true;
  else if (kind.copy)
    c.inout("compute", &AdamW::compute, {n}, kind.compute).optional = true;
  c.input("control", &AdamW::control, {StepControl::kCount}, DType::f64,
          listed({2.0, 0.5, kind.apply, kind.step, 0}));
  c.formula([=](const AdamW& op, auto& v) {
    using R = typename std::decay_t<decltype(v)>::Number;
    if (v["control"][StepControl::kApply] == R(0)) return;
    const R b1 = static_cast<R>(op.beta1), b2 = static_cast<R>(op.beta2),
            t = v["control"][StepControl::kStep];
    for (std::size_t i = 0; i < v["m"].size(); ++i) {
      auto &p = v["master"][i], &m = v["m"][i], &second = v["v"][i];
      const R g = v["control"][StepControl::kFactor] * v["gradient"][i];
      m = b1 * m + (1 - b1) * g;
      second = b2 * second + (1 - b2) * g * g;
      const R m_hat = m / (1 - std::pow(b1, t)), v_hat = second / (1 - std::pow(b2, t));
      p -= static_cast<R>(op.lr) *
           (m_hat / (std::sqrt(v_hat) + static_cast<R>(op.eps)) + static_cast<R>(op.weight_decay) * p);
      if (kind.copy) v["compute"][i] = p;
    }
  });
  return c;
}

}  // namespace

template <>
std::vector<Case<SquaredSum>> cases<SquaredSum>(Scale scale) {
  std::vector<Case<SquaredSum>> all;
  for (const auto dtype : kFloats) {
    if (scale == Scale::bench)
      all.push_back(squared_sum(1 << 21, dtype, 1.0));
    else
      for (const std::int64_t n : {0, 1, 33, 40000})
        for (const double size : {1.0, 1e20})
          all.push_back(squared_sum(n, dtype, size));  // B08: 1e20 is no overflow
  }
  return all;
}

template <>
std::vector<Case<StepControl>> cases<StepControl>(Scale) {
  constexpr double kInf = std::numeric_limits<double>::infinity(),
                   kNaN = std::numeric_limits<double>::quiet_NaN();
  // B01: 800 is a norm of 28.284. B08: 100 elements of 1e20 give 1e21; infinity and NaN skip the step.
  const std::vector<ControlKind> kinds{{"empty", {}, 1.0},        {"800", {300, 500}, 1.0},
                                       {"800", {300, 500}, 0.0},  {"small", {1e-4, 2e-4}, 1.0},
                                       {"1e42", {1e42}, 1.0},     {"inf", {1, kInf}, 1.0},
                                       {"nan", {1, kNaN, 2}, 1.0}};
  std::vector<Case<StepControl>> all;
  for (const auto& kind : kinds) all.push_back(step_control(kind));
  return all;
}

template <>
std::vector<Case<AdamW>> cases<AdamW>(Scale scale) {
  std::vector<Case<AdamW>> all;
  for (const auto dtype : {DType::f64, DType::f32}) {
    if (scale == Scale::bench) {
      all.push_back(adamw(1 << 21, dtype, {DType::bf16, dtype == DType::f32, 10, 1}));
      continue;
    }
    for (const std::int64_t n : {0, 1, 33, 4099})
      for (const double step : {1.0, 1000.0})
        for (const double apply : {0.0, 1.0})
          for (const AdamKind& kind :
               {AdamKind{dtype, false, step, apply}, AdamKind{dtype, true, step, apply},
                AdamKind{DType::bf16, true, step, apply}})
            all.push_back(adamw(n, dtype, kind));
  }
  return all;
}

}  // namespace fivefold::cases
