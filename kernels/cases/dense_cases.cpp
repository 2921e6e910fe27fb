// Cases of kernels/ops/dense.h.
#include <limits>

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

// A tensor core adds 16 products at a time to an f32 sum and cuts the sum off. Where the result rounds to
// bf16 that is lost in the rounding.
std::int64_t cuts_of(DType dtype, bool wide, std::int64_t inner) {
  return dtype == DType::bf16 && wide ? ceil_div(inner, 16) : 0;
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
  auto& result = kind.beta == 0 ? c.output("c", &Gemm::c, {s.m, s.n}, c_dtype)
                                : c.inout("c", &Gemm::c, {s.m, s.n}, c_dtype);
  result.cuts = cuts_of(dtype, kind.wide, s.k);
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

// Long sums, whose errors grow with the order that they are added in.
std::vector<Case<Gemm>> gemm_edges() {
  std::vector<Case<Gemm>> all;
  for (const auto dtype : kFloats)
    for (const Sizes sizes : {Sizes{40, 24, 8192}, {13, 21, 3001}, {16, 24, 40000}}) {
      all.push_back(gemm(sizes, dtype, {false, true, false, 0.0, false}));
      all.push_back(gemm(sizes, dtype, {false, false, false, 0.0, false}));
      all.push_back(gemm(sizes, dtype, {true, false, false, 1.0, true}));
    }
  return all;
}

// {rows, out, in} of the linears of the 256-wide model (2048 rows) and of a 1024-wide square.
constexpr std::array<Sizes, 5> kBenchLinears{
    {{2048, 768, 256}, {2048, 256, 256}, {2048, 2048, 256}, {2048, 256, 1024}, {1024, 1024, 1024}}};
// Of models of 1, 3 and 8 billion parameters: qkv, out, gate and up, down, and a chunk of the head's rows.
constexpr std::array<Sizes, 15> kLargeLinears{{{kLargeRows, 3072, 2048},
                                               {kLargeRows, 2048, 2048},
                                               {kLargeRows, 16384, 2048},
                                               {kLargeRows, 2048, 8192},
                                               {4096, 128256, 2048},
                                               {kLargeRows, 5120, 3072},
                                               {kLargeRows, 3072, 3072},
                                               {kLargeRows, 16384, 3072},
                                               {kLargeRows, 3072, 8192},
                                               {4096, 128256, 3072},
                                               {kLargeRows, 6144, 4096},
                                               {kLargeRows, 4096, 4096},
                                               {kLargeRows, 28672, 4096},
                                               {kLargeRows, 4096, 14336},
                                               {4096, 128256, 4096}}};

// Forward, input gradient and weight gradient of each.
std::vector<Case<Gemm>> gemm_benches(Scale scale) {
  const auto linears = scale == Scale::large ? std::span<const Sizes>(kLargeLinears) : kBenchLinears;
  std::vector<Case<Gemm>> all;
  for (const auto dtype : floats_of(scale))
    for (const auto& [rows, out, in] : linears) {
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

// Rows behind the last group may hold anything; here they hold NaN.
Generator rows_then_nan(std::int64_t used, std::string_view name) {
  return [used, numbers = uniform(-1, 1, hash_name(name))](std::int64_t i) {
    return i < used ? numbers(i) : std::numeric_limits<double>::quiet_NaN();
  };
}

// A [in -> out] linear per group; counts[g] rows go to group g.
Case<GroupedGemm> grouped(const std::vector<std::int64_t>& counts, std::int64_t in, std::int64_t out,
                          DType dtype, GroupedKind kind) {
  using Op = GroupedGemm;
  const auto groups = static_cast<std::int64_t>(counts.size());
  std::vector<double> offsets{0};
  for (const auto n : counts) offsets.push_back(offsets.back() + static_cast<double>(n));
  const auto used = static_cast<std::int64_t>(offsets.back()), rows = used + kind.spare;
  const bool weight = kind.product == Product::weight_gradient, forward = kind.product == Product::forward;
  const auto c_dtype = kind.wide ? accum_dtype(dtype) : dtype;
  const auto largest = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  Case<Op> c(str("R=", rows, ",G=", groups, ",largest=", largest, ",in=", in, ",out=", out,
                 ",product=", kProductNames[static_cast<std::size_t>(kind.product)], ",beta=", kind.beta,
                 ",spare=", kind.spare),
             dtype);
  c.op.beta = kind.beta;
  c.op.side = weight ? GroupedSide::weight : GroupedSide::rows;
  c.op.transpose_b = forward;
  const std::int64_t a_width = forward ? in : out;
  c.input("a", &Op::a, {rows, a_width}, dtype, rows_then_nan(used * a_width, "a"));
  c.input("b", &Op::b, weight ? Shape{rows, in} : Shape{groups * out, in}, dtype,
          rows_then_nan(weight ? used * in : groups * out * in, "b"));
  c.input("offsets", &Op::offsets, {groups + 1}, DType::i32, listed(offsets));
  const Shape c_shape = weight ? Shape{groups * out, in} : Shape{rows, forward ? out : in};
  auto& result = kind.beta == 0 && (weight || kind.spare == 0) ? c.output("c", &Op::c, c_shape, c_dtype)
                                                               : c.inout("c", &Op::c, c_shape, c_dtype);
  result.cuts = cuts_of(dtype, kind.wide, weight ? largest : a_width);
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

// Rows of `groups` groups by Zipf's law, the largest group first; the remainder of the division with the
// first.
std::vector<std::int64_t> skewed(std::int64_t rows, std::int64_t groups) {
  double harmonic = 0;
  for (std::int64_t g = 1; g <= groups; ++g) harmonic += 1 / static_cast<double>(g);
  std::vector<std::int64_t> counts;
  std::int64_t left = rows;
  for (std::int64_t g = 1; g <= groups; ++g) {
    counts.push_back(
        static_cast<std::int64_t>(static_cast<double>(rows) / (harmonic * static_cast<double>(g))));
    left -= counts.back();
  }
  counts.front() += left;
  return counts;
}

// Groups that end inside of tiles of 128 rows and of steps of 64, more tiles than a GPU has multiprocessors,
// long sums, an inner size that is no multiple of 64.
std::vector<Case<GroupedGemm>> grouped_edges() {
  struct Linear {
    std::vector<std::int64_t> counts;
    std::int64_t in, out;
  };
  std::vector<std::int64_t> many;
  for (std::int64_t g = 0; g < 80; ++g) many.push_back(g * 37 % 97);
  std::vector<Case<GroupedGemm>> all;
  for (const auto& [counts, in, out] :
       {Linear{{300, 0, 1, 257, 130, 64}, 264, 320}, Linear{many, 72, 320}, Linear{many, 320, 72},
        Linear{{5000, 3, 129}, 16, 64}, Linear{{9, 20}, 4104, 64}})
    for (const auto dtype : {DType::f32, DType::bf16})
      for (const auto product : {Product::forward, Product::input_gradient, Product::weight_gradient})
        for (const bool wide : {false, true})
          if (dtype == DType::bf16 || wide)
            all.push_back(grouped(counts, in, out, dtype, {product, wide ? 1.0 : 0.0, wide, 3}));
  return all;
}

// 64 experts with eight of them for each of 16384 tokens, every product of a 2048 x 2048 linear.
std::vector<Case<GroupedGemm>> large_grouped() {
  constexpr std::int64_t kGroups = 64, kRows = 8 * kLargeRows;
  std::vector<Case<GroupedGemm>> all;
  for (const auto& counts : {std::vector<std::int64_t>(kGroups, kRows / kGroups), skewed(kRows, kGroups)})
    for (const auto product : {Product::forward, Product::input_gradient, Product::weight_gradient}) {
      const bool wide = product == Product::weight_gradient;
      all.push_back(grouped(counts, 2048, 2048, DType::bf16, {product, wide ? 1.0 : 0.0, wide, 0}));
    }
  return all;
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
  if (scale == Scale::edges) return gemm_edges();
  return scale == Scale::test ? gemm_tests() : gemm_benches(scale);
}

template <>
std::vector<Case<GroupedGemm>> cases<GroupedGemm>(Scale scale) {
  if (scale == Scale::edges) return grouped_edges();
  if (scale == Scale::large) return large_grouped();
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
            for (const std::int64_t spare : {0, 2}) {
              all.push_back(grouped(counts, 7, 5, dtype, {product, beta, wide, spare}));
              all.push_back(grouped(counts, 264, 64, dtype, {product, beta, wide, spare}));
            }
      }
  return all;
}

template <>
std::vector<Case<BiasGradient>> cases<BiasGradient>(Scale scale) {
  return over_rows<BiasGradient>(scale, bias_gradient);
}

}  // namespace fivefold::cases
