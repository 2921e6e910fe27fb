// Cases of kernels/ops/dense.h.
#include "kernels/cases/place.h"
#include "kernels/cases/shapes.h"

namespace fivefold::cases {

namespace {

struct Sizes {
  std::int64_t m, n, k;
};
struct GemmKind {
  bool transpose_a, transpose_b, bias;
  double beta;
  bool wide;  // c in the accumulate dtype
};

// c[i, j] = beta c + bias[j] + sum over p of a[i, p] b[p, j], the two factors read through functions.
template <class R, class A, class B>
R product_element(std::int64_t k, A a, B b) {
  R sum = 0;
  for (std::int64_t p = 0; p < k; ++p) sum += a(p) * b(p);
  return sum;
}

std::size_t index(std::int64_t row, std::int64_t column, std::int64_t width) {
  return static_cast<std::size_t>(row * width + column);
}

Case<Gemm> gemm(Sizes s, DType dtype, GemmKind kind) {
  const auto c_dtype = kind.wide ? accum_dtype(dtype) : dtype;
  Case<Gemm> c(str("M=", s.m, ",N=", s.n, ",K=", s.k, ",transpose_a=", kind.transpose_a, ",transpose_b=",
                   kind.transpose_b, ",bias=", kind.bias, ",beta=", kind.beta, ",wide=", kind.wide),
               dtype);
  c.op.transpose_a = kind.transpose_a;
  c.op.transpose_b = kind.transpose_b;
  c.op.beta = kind.beta;
  c.input("a", &Gemm::a, kind.transpose_a ? Shape{s.k, s.m} : Shape{s.m, s.k}, dtype);
  c.input("b", &Gemm::b, kind.transpose_b ? Shape{s.n, s.k} : Shape{s.k, s.n}, dtype);
  if (kind.bias) c.input("bias", &Gemm::bias, {s.n}, kind.wide ? accum_dtype(dtype) : dtype).optional = true;
  if (kind.beta == 0)
    c.output("c", &Gemm::c, {s.m, s.n}, c_dtype);
  else
    c.inout("c", &Gemm::c, {s.m, s.n}, c_dtype);
  c.threads_change_bits = true;
  c.formula([=](const Gemm& op, auto& v) {
    using R = typename std::decay_t<decltype(v)>::Number;
    const auto &a = v["a"], &b = v["b"];
    for (std::int64_t i = 0; i < s.m; ++i)
      for (std::int64_t j = 0; j < s.n; ++j) {
        auto& out = v["c"][index(i, j, s.n)];
        const R sum = product_element<R>(
            s.k, [&](auto p) { return a[op.transpose_a ? index(p, i, s.m) : index(i, p, s.k)]; },
            [&](auto p) { return b[op.transpose_b ? index(j, p, s.k) : index(p, j, s.n)]; });
        out = sum + static_cast<R>(op.beta) * out;
        if (kind.bias) out += v["bias"][static_cast<std::size_t>(j)];
      }
  });
  return c;
}

std::vector<Case<Gemm>> gemm_tests() {
  constexpr std::array<Sizes, 7> kSizes{
      {{5, 7, 9}, {1, 1, 1}, {33, 17, 65}, {64, 48, 32}, {0, 4, 3}, {4, 0, 3}, {3, 4, 0}}};
  std::vector<Case<Gemm>> all;
  for (const auto dtype : kFloats)
    for (const auto& sizes : kSizes)
      for (const bool ta : {false, true})
        for (const bool tb : {false, true})
          for (const bool bias : {false, true})
            for (const double beta : {0.0, 1.0}) {
              all.push_back(gemm(sizes, dtype, {ta, tb, bias, beta, false}));
              if (dtype == DType::bf16) all.push_back(gemm(sizes, dtype, {ta, tb, bias, beta, true}));
            }
  return all;
}

// Forward, input gradient and weight gradient of the linears of the 256-wide model (2048 rows) and of a
// 1024-wide square.
std::vector<Case<Gemm>> gemm_benches() {
  constexpr std::array<Sizes, 5> kSizes{
      {{2048, 768, 256}, {2048, 256, 256}, {2048, 2048, 256}, {2048, 256, 1024}, {1024, 1024, 1024}}};
  std::vector<Case<Gemm>> all;
  for (const auto dtype : kFloats)
    for (const auto& [rows, out, in] : kSizes) {
      all.push_back(gemm({rows, out, in}, dtype, {false, true, false, 0.0, false}));
      all.push_back(gemm({rows, in, out}, dtype, {false, false, false, 0.0, false}));
      all.push_back(gemm({out, in, rows}, dtype, {true, false, false, 1.0, true}));
    }
  return all;
}

enum class Product : std::uint8_t { forward, input_gradient, weight_gradient };
constexpr std::array<std::string_view, 3> kProductNames{"forward", "input_gradient", "weight_gradient"};

struct GroupedKind {
  Product product;
  double beta;
  bool wide;
  std::int64_t spare;  // rows behind the last group
};

// A [in -> out] linear per group; counts[g] rows go to group g.
Case<GroupedGemm> grouped(const std::vector<std::int64_t>& counts, std::int64_t in, std::int64_t out,
                          DType dtype, GroupedKind kind) {
  using Op = GroupedGemm;
  const auto groups = static_cast<std::int64_t>(counts.size());
  std::vector<double> offsets{0};
  for (const auto n : counts) offsets.push_back(offsets.back() + static_cast<double>(n));
  const auto rows = static_cast<std::int64_t>(offsets.back()) + kind.spare;
  const bool weight = kind.product == Product::weight_gradient, forward = kind.product == Product::forward;
  const auto c_dtype = kind.wide ? accum_dtype(dtype) : dtype;
  Case<Op> c(str("R=", rows, ",G=", groups, ",in=", in, ",out=", out,
                 ",product=", kProductNames[static_cast<std::size_t>(kind.product)], ",beta=", kind.beta,
                 ",spare=", kind.spare),
             dtype);
  c.op.beta = kind.beta;
  c.op.side = weight ? GroupedSide::weight : GroupedSide::rows;
  c.op.transpose_b = forward;
  c.input("a", &Op::a, {rows, forward ? in : out}, dtype).free_rows = false;
  c.input("b", &Op::b, weight ? Shape{rows, in} : Shape{groups * out, in}, dtype);
  c.input("offsets", &Op::offsets, {groups + 1}, DType::i32, listed(offsets));
  const Shape c_shape = weight ? Shape{groups * out, in} : Shape{rows, forward ? out : in};
  if (kind.beta == 0 && (weight || kind.spare == 0))
    c.output("c", &Op::c, c_shape, c_dtype);
  else
    c.inout("c", &Op::c, c_shape, c_dtype);
  c.threads_change_bits = true;
  c.formula([=](const Op& op, auto& v) {
    using R = typename std::decay_t<decltype(v)>::Number;
    const auto &a = v["a"], &b = v["b"];
    const auto store = [&](std::size_t at, R sum) {
      v["c"][at] = sum + (op.beta == 0 ? R(0) : static_cast<R>(op.beta) * v["c"][at]);
    };
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto begin = static_cast<std::int64_t>(offsets[static_cast<std::size_t>(g)]),
                 end = begin + counts[static_cast<std::size_t>(g)];
      for (std::int64_t t = begin; t < end && forward; ++t)
        for (std::int64_t o = 0; o < out; ++o)
          store(index(t, o, out), product_element<R>(
                                      in, [&](auto p) { return a[index(t, p, in)]; },
                                      [&](auto p) { return b[index(g * out + o, p, in)]; }));
      for (std::int64_t t = begin; t < end && kind.product == Product::input_gradient; ++t)
        for (std::int64_t i = 0; i < in; ++i)
          store(index(t, i, in), product_element<R>(
                                     out, [&](auto p) { return a[index(t, p, out)]; },
                                     [&](auto p) { return b[index(g * out + p, i, in)]; }));
      for (std::int64_t o = 0; o < out && weight; ++o)
        for (std::int64_t i = 0; i < in; ++i)
          store(index(g * out + o, i, in),
                product_element<R>(
                    end - begin, [&](auto p) { return a[index(begin + p, o, out)]; },
                    [&](auto p) { return b[index(begin + p, i, in)]; }));
    }
  });
  return c;
}

// y = a b + bias with a inner size of 1, to see what the bias does to y.
Case<Gemm> bias_only(std::int64_t rows, std::int64_t width, DType dtype) {
  return gemm({rows, width, 1}, dtype, {false, false, true, 0.0, false});
}

Case<BiasGradient> bias_gradient(std::int64_t T, std::int64_t N, DType dtype) {
  Case<BiasGradient> c(str("T=", T, ",N=", N), dtype);
  c.input("dy", &BiasGradient::dy, {T, N}, dtype).free_rows = true;
  c.inout("d_bias", &BiasGradient::d_bias, {N}, accum_dtype(dtype));
  c.formula([=](const BiasGradient&, auto& v) {
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t n = 0; n < N; ++n)
        v["d_bias"][static_cast<std::size_t>(n)] += v["dy"][index(t, n, N)];
  });
  c.objective = [=](const Machine& machine, const Values<double>& v) {
    auto forward = bias_only(T, N, dtype);
    forward.set("bias", v["bias"]);
    return dot(evaluate(machine, forward)["c"], v["dy"]);
  };
  c.gradients = {{"bias", "d_bias"}};
  return c;
}

}  // namespace

template <>
std::vector<Case<Gemm>> cases<Gemm>(Scale scale) {
  return scale == Scale::test ? gemm_tests() : gemm_benches();
}

template <>
std::vector<Case<GroupedGemm>> cases<GroupedGemm>(Scale scale) {
  std::vector<Case<GroupedGemm>> all;
  const std::vector<std::vector<std::int64_t>> tests{{3, 0, 5, 1}, {0, 0}, {17}, {0, 33, 2}, {130, 0, 67}},
      benches{{512, 512, 512, 512}, {2048, 0, 0, 0}};
  for (const auto dtype : kFloats)
    for (const auto product : {Product::forward, Product::input_gradient, Product::weight_gradient})
      for (const auto& counts : scale == Scale::test ? tests : benches) {
        const bool wide = product == Product::weight_gradient;
        if (scale == Scale::bench)
          all.push_back(grouped(counts, 256, 1024, dtype, {product, wide ? 1.0 : 0.0, wide, 0}));
        else
          for (const double beta : {0.0, 1.0})
            for (const std::int64_t spare : {0, 2})
              all.push_back(grouped(counts, 7, 5, dtype, {product, beta, wide, spare}));
      }
  return all;
}

template <>
std::vector<Case<BiasGradient>> cases<BiasGradient>(Scale scale) {
  return over_rows<BiasGradient>(scale, bias_gradient);
}

}  // namespace fivefold::cases
