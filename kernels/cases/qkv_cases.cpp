// Cases of the split of packed qkv rows, with and without norm and rotary, and of rotary alone.
#include <cmath>

#include "kernels/cases/place.h"
#include "kernels/cases/shapes.h"

namespace fivefold::cases {
namespace {

struct Split {
  std::int64_t rows, heads, kv_heads, dim;
  std::int64_t turned = 0;  // dims that rotary turns; 0: no rotary
  RopeStyle style = RopeStyle::half;
  bool norm = false, wide_weight = false;

  std::int64_t width() const { return (heads + 2 * kv_heads) * dim; }
  std::string name() const {
    return str("T=", rows, ",H=", heads, "_", kv_heads, ",hd=", dim, ",R=", turned,
               ",interleaved=", style == RopeStyle::interleaved, ",norm=", norm,
               ",wide_weight=", wide_weight);
  }
};

constexpr std::int64_t kPositions = 50;

// Element i of a rotary table: position i / half, frequency 100^(-(i % half) / half).
double angle(std::int64_t i, std::int64_t half) {
  return static_cast<double>(i / half) *
         std::pow(100.0, -static_cast<double>(i % half) / static_cast<double>(half));
}

template <class Op>
void add_tables(Case<Op>& c, std::int64_t rows, std::int64_t turned) {
  const std::int64_t half = turned / 2;
  c.input("position", &Op::position, {rows}, DType::i32, integers(0, kPositions));
  c.input("cos", &Op::cos, {kPositions, half}, accum_dtype(c.dtype),
          [=](std::int64_t i) { return std::cos(angle(i, half)); });
  c.input("sin", &Op::sin, {kPositions, half}, accum_dtype(c.dtype),
          [=](std::int64_t i) { return std::sin(angle(i, half)); });
}

// Turns a head that starts at x[at].
template <class V, class R>
void turn(const V& v, std::size_t t, RopeStyle style, R direction, std::vector<R>& x, std::size_t at) {
  const auto half = v["cos"].size() / static_cast<std::size_t>(kPositions);
  for (std::size_t i = 0; i < half; ++i) {
    const auto table = static_cast<std::size_t>(v["position"][t]) * half + i;
    const R cos = v["cos"][table], sin = direction * v["sin"][table];
    const bool together = style == RopeStyle::interleaved;
    const std::size_t first = at + (together ? 2 * i : i), second = together ? first + 1 : first + half;
    const R a = x[first], b = x[second];
    x[first] = a * cos - b * sin;
    x[second] = b * cos + a * sin;
  }
}

// Where a head of q, k or v lies.
struct Place {
  std::size_t row, head, packed;  // packed: of its first element
  std::size_t in_tensor, in_rstd;
};
// f(name of the tensor, place) for every head of every row.
template <class F>
void for_each_head(const Split& split, F f) {
  const auto dim = static_cast<std::size_t>(split.dim), width = static_cast<std::size_t>(split.width());
  for (std::size_t t = 0; t < static_cast<std::size_t>(split.rows); ++t) {
    std::size_t packed = t * width;
    for (const auto& [name, count] :
         {std::pair{"q", split.heads}, {"k", split.kv_heads}, {"v", split.kv_heads}})
      for (std::size_t h = 0, heads = static_cast<std::size_t>(count); h < heads; ++h, packed += dim)
        f(std::string(name), Place{t, h, packed, (t * heads + h) * dim, t * heads + h});
  }
}

template <class R>
R rstd_of(const std::vector<R>& packed, std::size_t at, std::size_t dim, double eps) {
  R squares = 0;
  for (std::size_t i = 0; i < dim; ++i) squares += packed[at + i] * packed[at + i];
  return 1 / std::sqrt(squares / static_cast<R>(dim) + static_cast<R>(eps));
}

Case<SplitQkvForward> forward_case(const Split& s, DType dtype) {
  using Op = SplitQkvForward;
  Case<Op> c(s.name(), dtype);
  c.op.style = s.style;
  c.input("packed", &Op::packed, {s.rows, s.width()}, dtype);
  c.output("q", &Op::q, {s.rows, s.heads, s.dim}, dtype);
  c.output("k", &Op::k, {s.rows, s.kv_heads, s.dim}, dtype);
  c.output("v", &Op::v, {s.rows, s.kv_heads, s.dim}, dtype);
  if (s.norm) {
    const auto type = s.wide_weight ? accum_dtype(dtype) : dtype;
    c.input("q_weight", &Op::q_weight, {s.dim}, type, uniform(0.5, 2, 1));
    c.input("k_weight", &Op::k_weight, {s.dim}, type, uniform(0.5, 2, 2));
    c.output("q_rstd", &Op::q_rstd, {s.rows, s.heads}, accum_dtype(dtype));
    c.output("k_rstd", &Op::k_rstd, {s.rows, s.kv_heads}, accum_dtype(dtype));
  }
  if (s.turned) add_tables(c, s.rows, s.turned);
  c.formula([=](const Op& op, auto& v) {
    using R = typename std::decay_t<decltype(v)>::Number;
    const auto dim = static_cast<std::size_t>(s.dim);
    for_each_head(s, [&](const std::string& name, const Place& at) {
      auto& to = v[name];
      const bool normed = s.norm && name != "v";
      const R rstd = normed ? rstd_of(v["packed"], at.packed, dim, op.eps) : R(1);
      if (normed) v[name + "_rstd"][at.in_rstd] = rstd;
      for (std::size_t i = 0; i < dim; ++i)
        to[at.in_tensor + i] = v["packed"][at.packed + i] * rstd * (normed ? v[name + "_weight"][i] : R(1));
      if (s.turned && name != "v") turn(v, at.row, op.style, R(1), to, at.in_tensor);
    });
  });
  return c;
}

void fill_statistics(const Split& s, Values<double>& v) {
  for_each_head(s, [&](const std::string& name, const Place& at) {
    if (name != "v")
      v[name + "_rstd"][at.in_rstd] =
          rstd_of(v["packed"], at.packed, static_cast<std::size_t>(s.dim), SplitQkvForward{}.eps);
  });
}

template <class V>
void backward_formula(const Split& s, RopeStyle style, V& v) {
  using R = typename V::Number;
  const auto dim = static_cast<std::size_t>(s.dim);
  for_each_head(s, [&](const std::string& name, const Place& at) {
    const auto& from = v["d" + name];
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(at.in_tensor);
    std::vector<R> g(begin, begin + s.dim);
    if (s.turned && name != "v") turn(v, at.row, style, R(-1), g, 0);
    if (s.norm && name != "v") {
      const R rstd = v[name + "_rstd"][at.in_rstd];
      R along = 0;
      for (std::size_t i = 0; i < dim; ++i) {
        const R normal = v["packed"][at.packed + i] * rstd;
        v["d_" + name + "_weight"][i] += g[i] * normal;
        g[i] *= v[name + "_weight"][i];
        along += g[i] * normal / static_cast<R>(dim);
      }
      for (std::size_t i = 0; i < dim; ++i) g[i] = rstd * (g[i] - v["packed"][at.packed + i] * rstd * along);
    }
    for (std::size_t i = 0; i < dim; ++i) v["d_packed"][at.packed + i] = g[i];
  });
}

Case<SplitQkvBackward> backward_case(const Split& s, DType dtype) {
  using Op = SplitQkvBackward;
  Case<Op> c(s.name(), dtype);
  c.op.style = s.style;
  c.input("dq", &Op::dq, {s.rows, s.heads, s.dim}, dtype);
  c.input("dk", &Op::dk, {s.rows, s.kv_heads, s.dim}, dtype);
  c.input("dv", &Op::dv, {s.rows, s.kv_heads, s.dim}, dtype);
  c.output("d_packed", &Op::d_packed, {s.rows, s.width()}, dtype);
  c.gradients = {{"packed", "d_packed"}};
  if (s.norm) {
    const auto accum = accum_dtype(dtype), type = s.wide_weight ? accum : dtype;
    c.input("packed", &Op::packed, {s.rows, s.width()}, dtype);
    c.input("q_weight", &Op::q_weight, {s.dim}, type, uniform(0.5, 2, 1));
    c.input("k_weight", &Op::k_weight, {s.dim}, type, uniform(0.5, 2, 2));
    c.input("q_rstd", &Op::q_rstd, {s.rows, s.heads}, accum);
    c.input("k_rstd", &Op::k_rstd, {s.rows, s.kv_heads}, accum);
    c.inout("d_q_weight", &Op::d_q_weight, {s.dim}, accum);
    c.inout("d_k_weight", &Op::d_k_weight, {s.dim}, accum);
    c.gradients = {{"packed", "d_packed"}, {"q_weight", "d_q_weight"}, {"k_weight", "d_k_weight"}};
    c.prepare = [=](const Op&, Values<double>& v) { fill_statistics(s, v); };
  } else {
    c.input("packed", &Op::packed, {s.rows, s.width()}, dtype).optional = true;
  }
  if (s.turned) add_tables(c, s.rows, s.turned);
  c.formula([=](const Op& op, auto& v) { backward_formula(s, op.style, v); });
  c.objective = [=](const Machine& machine, const Values<double>& v) {
    auto forward = forward_case(s, dtype);
    for (const auto* name : {"packed", "q_weight", "k_weight"})
      if (v.has(name)) forward.set(name, v[name]);
    const auto result = evaluate(machine, forward);
    return dot(result["q"], v["dq"]) + dot(result["k"], v["dk"]) + dot(result["v"], v["dv"]);
  };
  return c;
}

Case<Rotary> rotary_case(const Split& s, bool inverse, DType dtype) {
  Case<Rotary> c(str("T=", s.rows, ",H=", s.heads, ",hd=", s.dim, ",R=", s.turned,
                     ",interleaved=", s.style == RopeStyle::interleaved, ",inverse=", inverse),
                 dtype);
  c.op.style = s.style;
  c.op.inverse = inverse;
  c.input("x", &Rotary::x, {s.rows, s.heads, s.dim}, dtype);
  c.output("y", &Rotary::y, {s.rows, s.heads, s.dim}, dtype);
  add_tables(c, s.rows, s.turned);
  c.formula([=](const Rotary& op, auto& v) {
    using R = typename std::decay_t<decltype(v)>::Number;
    auto turned = v["x"];
    for (std::size_t row = 0; row < static_cast<std::size_t>(s.rows * s.heads); ++row)
      turn(v, row / static_cast<std::size_t>(s.heads), op.style, op.inverse ? R(-1) : R(1), turned,
           row * static_cast<std::size_t>(s.dim));
    v["y"] = turned;
  });
  c.may_share = {{"y", "x"}};
  return c;
}

std::vector<Split> splits(Scale scale) {
  constexpr auto kHalf = RopeStyle::half, kInterleaved = RopeStyle::interleaved;
  if (scale == Scale::large)
    return {{kLargeRows, 32, 8, 64, 64, kHalf},
            {kLargeRows, 32, 8, 128, 128, kHalf},
            {kLargeRows, 32, 8, 128, 128, kHalf, true, true}};
  if (scale == Scale::bench)
    return {{2048, 4, 4, 64, 64, kHalf},
            {2048, 4, 4, 64, 64, kHalf, true},
            {2048, 16, 4, 128, 128, kInterleaved}};
  // Packs of 16 bytes: heads that are no multiple of what a thread takes, dims that do not turn, 2 to 32
  // lanes a head; more rows than blocks for the sums of the norm; lanes that are no power of two.
  if (scale == Scale::edges)
    return {{9, 5, 1, 64, 64, kHalf},
            {9, 4, 2, 128, 64, kHalf},
            {7, 3, 2, 128, 128, kInterleaved},
            {7, 2, 1, 64, 32, kInterleaved},
            {5, 4, 4, 64},
            {3, 1, 1, 512, 512, kHalf},
            {9, 5, 1, 64, 64, kHalf, true},
            {9, 3, 2, 128, 64, kInterleaved, true, true},
            {17000, 2, 1, 64, 32, kHalf, true},
            {5, 3, 1, 96, 96, kHalf, true}};
  return {{5, 4, 2, 8, 8, kHalf},
          {5, 3, 1, 6, 4, kInterleaved},
          {3, 2, 2, 7},
          {67, 2, 1, 20, 16, kHalf, true},
          {6, 2, 2, 9, 8, kInterleaved, true, true},
          {4, 4, 1, 5, 0, kHalf, true},
          {0, 2, 1, 4, 4, kHalf, true}};
}

}  // namespace

template <>
std::vector<Case<SplitQkvForward>> cases<SplitQkvForward>(Scale scale) {
  std::vector<Case<SplitQkvForward>> all;
  for (const auto dtype : floats_of(scale))
    for (const auto& split : splits(scale)) all.push_back(forward_case(split, dtype));
  return all;
}

template <>
std::vector<Case<SplitQkvBackward>> cases<SplitQkvBackward>(Scale scale) {
  std::vector<Case<SplitQkvBackward>> all;
  for (const auto dtype : floats_of(scale))
    for (const auto& split : splits(scale)) all.push_back(backward_case(split, dtype));
  return all;
}

template <>
std::vector<Case<Rotary>> cases<Rotary>(Scale scale) {
  std::vector<Case<Rotary>> all;
  for (const auto dtype : floats_of(scale))
    for (const auto& split : splits(scale))
      for (const bool inverse : {false, true})
        if (split.turned && !split.norm) all.push_back(rotary_case(split, inverse, dtype));
  return all;
}

}  // namespace fivefold::cases
