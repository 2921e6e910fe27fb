// Attention across op calls: ring chunks merged, rows that see nothing.
#include <cmath>
#include <limits>

#include "kernels/cases/masks.h"
#include "tests/kernels/cpu_fixture.h"

namespace fivefold {
namespace {

using cases::Mask;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kHeads = 4, kKvHeads = 2, kDim = 16;

class AttentionTest : public CpuFixture {
 protected:
  struct Inputs {
    Tensor q, k, v, d_out;
  };
  struct Result {
    Tensor out, lse;
  };
  struct Gradients {
    Tensor dq, dk, dv;
  };

  Inputs make_inputs(std::int64_t rows, DType dtype) {
    return {normal({rows, kHeads, kDim}, dtype, 1.5, 1), normal({rows, kKvHeads, kDim}, dtype, 1.5, 2),
            normal({rows, kKvHeads, kDim}, dtype, 1, 3), normal({rows, kHeads, kDim}, dtype, 1, 4)};
  }
  Tensor indices(const Numbers& numbers) {
    return tensor({static_cast<std::int64_t>(numbers.size())}, DType::i32, numbers);
  }

  // Results in the accumulate dtype, as in a ring.
  Result forward(const Inputs& in, const Mask& mask) {
    const auto wide = accum_dtype(in.q.dtype());
    const Result r{tensor({in.q.dim(0), kHeads, kDim}, wide), tensor({in.q.dim(0), kHeads}, wide)};
    run(AttentionForward{.q = in.q,
                         .k = in.k,
                         .v = in.v,
                         .q_index = indices(mask.q_index),
                         .first_visible = indices(mask.first_visible),
                         .k_index = indices(mask.k_index),
                         .out = r.out,
                         .lse = r.lse,
                         .scale = 0.25});
    return r;
  }
  Gradients backward(const Inputs& in, const Result& saved, const Mask& mask) {
    const auto wide = accum_dtype(in.q.dtype());
    const Gradients g{tensor(in.q.shape(), wide), tensor(in.k.shape(), wide), tensor(in.v.shape(), wide)};
    run(AttentionBackward{.q = in.q,
                          .k = in.k,
                          .v = in.v,
                          .q_index = indices(mask.q_index),
                          .first_visible = indices(mask.first_visible),
                          .k_index = indices(mask.k_index),
                          .out = saved.out,
                          .lse = saved.lse,
                          .d_out = in.d_out,
                          .dq = g.dq,
                          .dk = g.dk,
                          .dv = g.dv,
                          .scale = 0.25});
    return g;
  }

  // Keys [begin, end) of a mask.
  static Mask keys_of(Mask mask, std::int64_t begin, std::int64_t end) {
    mask.k_index = Numbers(mask.k_index.begin() + begin, mask.k_index.begin() + end);
    return mask;
  }
  static Inputs keys_of(const Inputs& in, std::int64_t begin, std::int64_t end) {
    return {in.q, in.k.rows(begin, end), in.v.rows(begin, end), in.d_out};
  }
  // Attention to `chunks` parts of the keys in turn, merged.
  Result forward_in_chunks(const Inputs& in, const Mask& mask, std::int64_t chunks) {
    const auto rows = in.k.dim(0);
    Result sum = forward(keys_of(in, 0, rows / chunks), keys_of(mask, 0, rows / chunks));
    for (std::int64_t c = 1; c < chunks; ++c) {
      const auto begin = rows * c / chunks, end = rows * (c + 1) / chunks;
      const auto part = forward(keys_of(in, begin, end), keys_of(mask, begin, end));
      run(AttentionMerge{.out = sum.out, .lse = sum.lse, .other_out = part.out, .other_lse = part.lse});
    }
    return sum;
  }
};

TEST_F(AttentionTest, ChunksOfKeysMergeToTheWhole) {
  for (const auto& mask : {cases::causal_mask(2, 72), cases::causal_mask(1, 144, 50)}) {
    const auto in = make_inputs(mask.queries(), DType::f64);
    const auto whole = forward(in, mask);
    for (const std::int64_t chunks : {2, 3, 8}) {
      const auto merged = forward_in_chunks(in, mask, chunks);
      EXPECT_LE(largest_difference(merged.out, whole.out), 1e-12) << mask.name << ' ' << chunks;
      EXPECT_LE(largest_difference(merged.lse, whole.lse), 1e-12) << mask.name << ' ' << chunks;
    }
  }
}

TEST_F(AttentionTest, GradientsOfChunksOfKeysAddToTheWhole) {
  const auto mask = cases::causal_mask(2, 72);
  const auto in = make_inputs(mask.queries(), DType::f64);
  const auto saved = forward(in, mask);
  const auto whole = backward(in, saved, mask);
  const auto dq = filled(in.q.shape(), DType::f64, 0);
  constexpr std::int64_t kChunks = 4;
  for (std::int64_t c = 0; c < kChunks; ++c) {
    const auto begin = mask.keys() * c / kChunks, end = mask.keys() * (c + 1) / kChunks;
    const auto part = backward(keys_of(in, begin, end), saved, keys_of(mask, begin, end));
    run(Add{.a = dq, .b = part.dq, .out = dq});
    EXPECT_LE(largest_difference(part.dk, whole.dk.rows(begin, end)), 1e-12) << c;
    EXPECT_LE(largest_difference(part.dv, whole.dv.rows(begin, end)), 1e-12) << c;
  }
  EXPECT_LE(largest_difference(dq, whole.dq), 1e-12);
}

// B42: partial results of bf16 attention are merged in f32, so the error does not grow with the number of
// chunks.
TEST_F(AttentionTest, MergingAddsNoErrorInBf16) {
  const auto mask = cases::causal_mask(1, 256);
  const auto in = make_inputs(mask.queries(), DType::bf16);
  const Inputs exact_in{converted(in.q, DType::f64), converted(in.k, DType::f64), converted(in.v, DType::f64),
                        in.d_out};
  const auto exact = forward(exact_in, mask);
  const auto error = [&](std::int64_t chunks) {
    return largest_difference(forward_in_chunks(in, mask, chunks).out, exact.out);
  };
  const double alone = error(1);
  EXPECT_GT(alone, 0);
  for (const std::int64_t chunks : {2, 4, 8}) EXPECT_LE(error(chunks), 2 * alone) << chunks;
}

// The rounding points that the op's header states: P before P V and before P^T d_out, dS before both of its
// products.
TEST_F(AttentionTest, ProbabilitiesAndScoreGradientsRoundToBf16) {
  const auto one = filled({1, 1, 1}, DType::bf16, 1);
  const auto k = tensor({2, 1, 1}, DType::bf16, {0, -1.1015625}), v = tensor({2, 1, 1}, DType::bf16, {0, 1});
  const auto out = tensor({1, 1, 1}, DType::f32), lse = tensor({1, 1}, DType::f32);
  const auto last = indices({1}), first = indices({0}), keys = indices({0, 1});
  run(AttentionForward{.q = one,
                       .k = k,
                       .v = v,
                       .q_index = last,
                       .first_visible = first,
                       .k_index = keys,
                       .out = out,
                       .lse = lse});
  const auto rounded = [](double x) {
    return static_cast<double>(static_cast<float>(bf16(static_cast<float>(x))));
  };
  const double e = std::exp(-1.1015625), p = e / (1 + e), ds = p * (1 - get(out, 0));
  EXPECT_NEAR(get(out, 0), rounded(e) / (1 + e), 1e-6);
  const auto dq = tensor({1, 1, 1}, DType::f32), dk = tensor({2, 1, 1}, DType::f32),
             dv = tensor({2, 1, 1}, DType::f32);
  run(AttentionBackward{.q = one,
                        .k = k,
                        .v = v,
                        .q_index = last,
                        .first_visible = first,
                        .k_index = keys,
                        .out = out,
                        .lse = lse,
                        .d_out = one,
                        .dq = dq,
                        .dk = dk,
                        .dv = dv});
  EXPECT_NEAR(get(dv, 1), rounded(p), 1e-6);
  EXPECT_NEAR(get(dk, 1), rounded(ds), 1e-6);
  EXPECT_NEAR(get(dq, 0), -1.1015625 * rounded(ds), 1e-6);
  for (const double x : {e, p, ds})
    EXPECT_GT(std::abs(x - rounded(x)), 1e-5) << "the numbers show no rounding";
}

// B41: log-sum-exps 110 apart; log(1 + exp(b - a)) would overflow.
TEST_F(AttentionTest, MergeTakesTheMaximumOut) {
  const auto out = filled({1, 2, 3}, DType::f32, 1), lse = tensor({1, 2}, DType::f32, {-50, 60});
  const auto other = filled({1, 2, 3}, DType::f32, 2), other_lse = tensor({1, 2}, DType::f32, {60, -50});
  run(AttentionMerge{.out = out, .lse = lse, .other_out = other, .other_lse = other_lse});
  EXPECT_EQ(numbers(lse), (Numbers{60, 60}));
  EXPECT_EQ(numbers(out), (Numbers{2, 2, 2, 1, 1, 1}));
}

// B43: a row that no part sees stays 0 and -inf; a part that sees nothing changes nothing.
TEST_F(AttentionTest, MergeOfNothingIsNothing) {
  const auto out = tensor({1, 3, 1}, DType::f32, {0, 5, 0}),
             lse = tensor({1, 3}, DType::f32, {-kInfinity, 1, -kInfinity});
  const auto other = tensor({1, 3, 1}, DType::f32, {0, 0, 7});
  const auto other_lse = tensor({1, 3}, DType::f32, {-kInfinity, -kInfinity, 2});
  run(AttentionMerge{.out = out, .lse = lse, .other_out = other, .other_lse = other_lse});
  EXPECT_EQ(numbers(out), (Numbers{0, 5, 7}));
  EXPECT_EQ(numbers(lse), (Numbers{-kInfinity, 1, 2}));
}

// B43: padding rows, whatever they hold, give 0 and take no part in the gradients of the others.
TEST_F(AttentionTest, RowsThatSeeNothingGiveZero) {
  const std::vector<std::int64_t> real{20, 0, 7};
  const auto mask = cases::padded_mask(24, real);
  const auto is_padding = [&](std::int64_t row) {
    return row % 24 >= real[static_cast<std::size_t>(row / 24)];
  };
  auto in = make_inputs(mask.queries(), DType::f32);
  for (std::int64_t i = 0; i < in.q.count(); ++i)
    if (is_padding(i / (kHeads * kDim))) in.q.data<float>()[i] = in.d_out.data<float>()[i] = std::nanf("");
  const auto saved = forward(in, mask);
  const auto g = backward(in, saved, mask);
  for (std::int64_t row = 0; row < mask.queries(); ++row)
    for (std::int64_t i = row * kHeads * kDim; i < (row + 1) * kHeads * kDim; ++i) {
      EXPECT_TRUE(is_padding(row) ? get(saved.out, i) == 0
                                  : std::isfinite(get(saved.out, i)) && get(saved.out, i) != 0);
      EXPECT_TRUE(is_padding(row) ? get(g.dq, i) == 0 : std::isfinite(get(g.dq, i))) << row;
      EXPECT_EQ(get(saved.lse, i / kDim) == -kInfinity, is_padding(row));
    }
  for (const auto& t : {g.dk, g.dv})
    for (std::int64_t i = 0; i < t.count(); ++i)
      EXPECT_TRUE(is_padding(i / (kKvHeads * kDim)) ? get(t, i) == 0 : std::isfinite(get(t, i)));
}

// B43: a rank whose keys nobody sees, and one without keys.
TEST_F(AttentionTest, KeysThatNobodySeesGiveZero) {
  auto later = cases::causal_mask(1, 40);
  for (auto& index : later.k_index) index += 40;
  for (const auto& mask : {later, cases::full_mask(40, 0)}) {
    auto in = make_inputs(40, DType::f32);
    in = keys_of(in, 0, mask.keys());
    const auto saved = forward(in, mask);
    const auto g = backward(in, saved, mask);
    for (const auto& t : {saved.out, g.dq, g.dk, g.dv})
      for (const auto x : numbers(t)) EXPECT_EQ(x, 0);
    for (const auto x : numbers(saved.lse)) EXPECT_EQ(x, -kInfinity);
  }
}

}  // namespace
}  // namespace fivefold
