// Cases of kernels/ops/optim.h.
#include <limits>

#include "core/split_f32.h"
#include "kernels/cases/place.h"
#include "kernels/cases/shapes.h"

namespace fivefold::cases {

namespace {

// Parts of these sizes; the sums between them are nobody's.
Case<SquaredSum> squared_sum(const std::vector<std::int64_t>& sizes, DType dtype, double scale) {
  std::string list;
  for (const auto n : sizes) list += str(list.empty() ? "" : "+", n);
  Case<SquaredSum> c(str("n=", list, ",scale=", scale), dtype);
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    c.op.parts.push_back({.x = {}, .index = static_cast<std::int64_t>(2 * p + 1)});
    c.input(
         str("x", p), [p](SquaredSum& op) -> Tensor& { return op.parts[p].x; }, {sizes[p]}, dtype,
         uniform(-scale, scale, p))
        .free_rows = true;
  }
  auto& sums =
      c.inout("sums", &SquaredSum::sums, {static_cast<std::int64_t>(2 * sizes.size() + 1)}, DType::f64);
  sums.free_rows = sums.in_f64 = true;
  c.formula([](const SquaredSum& op, auto& v) {
    for (std::size_t p = 0; p < op.parts.size(); ++p) {
      auto& sum = v["sums"][static_cast<std::size_t>(op.parts[p].index)];
      for (const auto x : v[str("x", p)]) sum += x * x;
    }
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

enum class Form : std::uint8_t { lone, copied, copied_bf16, split };
constexpr std::array<std::string_view, 4> kFormNames{"lone", "copied", "copied_bf16", "split"};

// How weights and state are stored; `dtype`: of the master, of what a split one makes together.
struct Stored {
  Form form = Form::lone;
  DType dtype = DType::f32;
  DType gradient = accum_dtype(dtype), moments = accum_dtype(dtype);
  std::string name() const {
    return str(kFormNames[static_cast<std::size_t>(form)], ",gradient=", gradient, ",moments=", moments);
  }
};

// An f32 of some size whose lower half is near or on a place where the rounding to bf16 turns.
double near_a_tie(std::int64_t i) {
  constexpr std::array<std::uint32_t, 6> kLower{0x8000, 0x7fff, 0x8001, 0, 0xffff, 0x1234};
  const auto random = philox(5, 0, static_cast<std::uint64_t>(i))[0];
  const auto upper = 0x3f00u + random % 0x100u + (random & 0x10000u ? 0x8000u : 0u);
  const auto bits = upper << 16 | kLower[static_cast<std::size_t>(i) % kLower.size()];
  return static_cast<double>(std::bit_cast<float>(bits));
}

// A bf16 as near_a_tie would be rounded, and what it needs to become that again.
double upper_of(double x) {
  return static_cast<double>(static_cast<float>(split(static_cast<float>(x)).upper));
}
double remainder_of(double x) { return static_cast<double>(split(static_cast<float>(x)).remainder); }

Generator of(double (*f)(double)) {
  return [f](std::int64_t i) { return f(near_a_tie(i)); };
}

enum class Use : std::uint8_t { changed, read, written };

// The operands of a weight; `at` finds it in the op, `suffix` ends their names.
template <class Op>
void add_weight(Case<Op>& c, const Stored& kind, Use use, std::int64_t n, const std::string& suffix,
                std::function<StoredMaster&(Op&)> at) {
  const auto add = [&](const char* name, Tensor StoredMaster::*member, DType dtype,
                       Generator value) -> auto& {
    const auto place = [at, member](Op& op) -> Tensor& { return at(op).*member; };
    if (use == Use::written) return c.output(name + suffix, place, {n}, dtype);
    if (use == Use::read) return c.input(name + suffix, place, {n}, dtype, value);
    return c.inout(name + suffix, place, {n}, dtype, value);
  };
  if (kind.form == Form::split) {
    add("copy", &StoredMaster::copy, DType::bf16, of(upper_of));
    add("remainder", &StoredMaster::remainder, DType::i16, of(remainder_of));
    return;
  }
  add("master", &StoredMaster::master, kind.dtype, near_a_tie);
  if (kind.form == Form::lone) return;
  add("copy", &StoredMaster::copy, kind.form == Form::copied ? kind.dtype : DType::bf16, of(upper_of))
      .optional = true;
}

// What the weight's operands hold when its master is `p`.
template <class R>
void put_weight(Values<R>& v, const Stored& kind, const std::string& suffix, std::size_t i, R p) {
  if (kind.form == Form::split) {
    v["remainder" + suffix][i] = static_cast<R>(remainder_of(static_cast<double>(p)));
  } else {
    v["master" + suffix][i] =
        kind.dtype == DType::bf16 ? static_cast<R>(upper_of(static_cast<double>(p))) : p;
  }
  if (kind.form == Form::copied) v["copy" + suffix][i] = p;
  if (kind.form == Form::copied_bf16 || kind.form == Form::split)
    v["copy" + suffix][i] = static_cast<R>(upper_of(static_cast<double>(p)));
}
template <class R>
R master_in(Values<R>& v, const Stored& kind, const std::string& suffix, std::size_t i) {
  if (kind.form != Form::split) return v["master" + suffix][i];
  return static_cast<R>(join(bf16(static_cast<float>(v["copy" + suffix][i])),
                             static_cast<std::int16_t>(v["remainder" + suffix][i])));
}

struct AdamKind {
  Stored stored;
  double step = 10, apply = 1;
};

// Where a split weight moves, an error of one last place would change all of its remainder: here it stays,
// and tests of its own compare moving ones with weights that are stored whole.
Case<AdamW> adamw(const std::vector<std::int64_t>& sizes, const AdamKind& kind) {
  const auto& stored = kind.stored;
  std::string list;
  for (const auto n : sizes) list += str(list.empty() ? "" : "+", n);
  Case<AdamW> c(str("n=", list, ",weight=", stored.name(), ",step=", kind.step, ",apply=", kind.apply),
                stored.dtype);
  c.op.lr = stored.form == Form::split ? 0 : 0.01;
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    const auto place = [p](Tensor AdamW::Part::*member) {
      return [p, member](AdamW& op) -> Tensor& { return op.parts[p].*member; };
    };
    c.op.parts.emplace_back().weight_decay = p % 2 == 0 ? 0.1 : 0;
    add_weight<AdamW>(c, stored, Use::changed, sizes[p], str(p),
                      [p](AdamW& op) -> StoredMaster& { return op.parts[p].weight; });
    c.input(str("gradient", p), place(&AdamW::Part::gradient), {sizes[p]}, stored.gradient);
    c.inout(str("m", p), place(&AdamW::Part::m), {sizes[p]}, stored.moments, uniform(-0.1, 0.1, 3));
    c.inout(str("v", p), place(&AdamW::Part::v), {sizes[p]}, stored.moments, uniform(0, 0.01, 4));
  }
  c.input("control", &AdamW::control, {StepControl::kCount}, DType::f64,
          listed({2.0, 0.5, kind.apply, kind.step, 0}));
  c.formula([=](const AdamW& op, auto& v) {
    using R = typename std::decay_t<decltype(v)>::Number;
    if (v["control"][StepControl::kApply] == R(0)) return;
    const R b1 = static_cast<R>(op.beta1), b2 = static_cast<R>(op.beta2),
            t = v["control"][StepControl::kStep];
    for (std::size_t part = 0; part < op.parts.size(); ++part) {
      auto &first = v[str("m", part)], &second = v[str("v", part)];
      for (std::size_t i = 0; i < first.size(); ++i) {
        auto &m = first[i], &s = second[i];
        const R g = v["control"][StepControl::kFactor] * v[str("gradient", part)][i];
        const R p = master_in(v, stored, str(part), i), decay = static_cast<R>(op.parts[part].weight_decay);
        m = b1 * m + (1 - b1) * g;
        s = b2 * s + (1 - b2) * g * g;
        const R m_hat = m / (1 - std::pow(b1, t)), s_hat = s / (1 - std::pow(b2, t));
        put_weight(
            v, stored, str(part), i,
            p - static_cast<R>(op.lr) * (m_hat / (std::sqrt(s_hat) + static_cast<R>(op.eps)) + decay * p));
      }
    }
  });
  return c;
}

Case<ReadMaster> read_master(std::int64_t n, const Stored& kind) {
  Case<ReadMaster> c(str("n=", n, ",weight=", kind.name()), kind.dtype);
  add_weight<ReadMaster>(c, kind, Use::read, n, "",
                         [](ReadMaster& op) -> StoredMaster& { return op.weight; });
  c.output("value", &ReadMaster::value, {n}, accum_dtype(kind.dtype));
  c.formula([=](const ReadMaster&, auto& v) {
    auto& value = v["value"];
    for (std::size_t i = 0; i < value.size(); ++i) value[i] = master_in(v, kind, "", i);
  });
  return c;
}

Case<WriteMaster> write_master(std::int64_t n, const Stored& kind) {
  Case<WriteMaster> c(str("n=", n, ",weight=", kind.name()), kind.dtype);
  add_weight<WriteMaster>(c, kind, Use::written, n, "",
                          [](WriteMaster& op) -> StoredMaster& { return op.weight; });
  c.input("value", &WriteMaster::value, {n}, accum_dtype(kind.dtype), near_a_tie);
  c.formula([=](const WriteMaster&, auto& v) {
    const auto value = v["value"];
    for (std::size_t i = 0; i < value.size(); ++i) put_weight(v, kind, "", i, value[i]);
  });
  return c;
}

// Every form of a weight; state in the dtype of the arithmetic.
std::vector<Stored> forms() {
  return {{.form = Form::lone, .dtype = DType::f64},        {.form = Form::copied, .dtype = DType::f64},
          {.form = Form::copied_bf16, .dtype = DType::f64}, {.form = Form::lone, .dtype = DType::f32},
          {.form = Form::copied, .dtype = DType::f32},      {.form = Form::copied_bf16, .dtype = DType::f32},
          {.form = Form::lone, .dtype = DType::bf16},       {.form = Form::split, .dtype = DType::f32}};
}

// With bf16 state too where the arithmetic is f32.
std::vector<Stored> stored_kinds() {
  std::vector<Stored> all;
  for (const auto& form : forms())
    for (const auto gradient : {accum_dtype(form.dtype), DType::bf16})
      for (const auto moments : {accum_dtype(form.dtype), DType::bf16}) {
        const bool full = gradient != DType::bf16 && moments != DType::bf16;
        if (full || form.dtype != DType::f64)
          all.push_back({.form = form.form, .dtype = form.dtype, .gradient = gradient, .moments = moments});
      }
  return all;
}

template <class Make>
auto over_forms(Scale scale, Make make) {
  std::vector<decltype(make(std::int64_t{}, Stored{}))> all;
  if (scale == Scale::large) return all;
  for (const auto& form : forms()) {
    if (scale == Scale::bench)
      all.push_back(make(1 << 21, form));
    else
      for (const std::int64_t n : {0, 1, 33, 4099}) all.push_back(make(n, form));
  }
  return all;
}

}  // namespace

template <>
std::vector<Case<SquaredSum>> cases<SquaredSum>(Scale scale) {
  std::vector<Case<SquaredSum>> all;
  if (scale == Scale::large) return {squared_sum({1 << 28}, DType::f32, 1.0)};
  const std::vector<std::vector<std::int64_t>> tests{{0}, {1}, {33}, {40000}, {7, 0, 70001, 32768, 2}};
  for (const auto dtype : kFloats) {
    if (scale == Scale::bench)
      all.push_back(squared_sum({1 << 21}, dtype, 1.0));
    else
      for (const auto& sizes : tests)
        for (const double size : {1.0, 1e20})
          all.push_back(squared_sum(sizes, dtype, size));  // B08: 1e20 is no overflow
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

// A layer's matrices and vectors, of a model of 8 billion parameters.
const std::vector<std::int64_t> kLargeLayer{4096, 4096 * 4096,  1024 * 4096,  1024 * 4096, 4096 * 4096,
                                            4096, 14336 * 4096, 14336 * 4096, 14336 * 4096};

template <>
std::vector<Case<AdamW>> cases<AdamW>(Scale scale) {
  std::vector<Case<AdamW>> all;
  if (scale == Scale::large) {
    for (const auto form : {Form::copied_bf16, Form::split}) {
      all.push_back(adamw({1 << 28}, {{.form = form}}));
      all.push_back(adamw(kLargeLayer, {{.form = form}}));
    }
    return all;
  }
  if (scale == Scale::bench)
    return {adamw({1 << 21}, {{.dtype = DType::f64}}), adamw({1 << 21}, {{.form = Form::copied_bf16}}),
            adamw({1 << 21}, {{.form = Form::split}})};
  for (const auto& stored : stored_kinds()) {
    for (const std::int64_t n : {0, 1, 33, 4099}) all.push_back(adamw({n}, {stored, 1000}));
    all.push_back(adamw({40, 0, 3, 9001}, {stored, 1}));
    all.push_back(adamw({33}, {stored, 10, 0}));
  }
  return all;
}

template <>
std::vector<Case<ReadMaster>> cases<ReadMaster>(Scale scale) {
  return over_forms(scale, read_master);
}

template <>
std::vector<Case<WriteMaster>> cases<WriteMaster>(Scale scale) {
  return over_forms(scale, write_master);
}

}  // namespace fivefold::cases
