// The norm over the residual stream: the pending delta is added once, gradients of the sum and of weights by
// differences.
#include "model/norm_layer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/layer_run.h"

namespace fivefold {
namespace {

using test::TestParams;

constexpr std::int64_t kRows = 4, kWidth = 5;
constexpr double kEps = 1e-3;  // large enough to show where it is left out

// RMSNorm or LayerNorm of one row by their formulas.
std::vector<double> naive(const std::vector<double>& x, const std::vector<double>& weight,
                          const std::vector<double>& bias) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, square = 0;
  for (const double v : x) mean += bias.empty() ? 0 : v / n;
  for (const double v : x) square += (v - mean) * (v - mean) / n;
  std::vector<double> y;
  for (std::size_t i = 0; i < x.size(); ++i)
    y.push_back((x[i] - mean) / std::sqrt(square + kEps) * weight[i] + (bias.empty() ? 0 : bias[i]));
  return y;
}

class NormLayerKinds : public testing::TestWithParam<bool> {};

TEST_P(NormLayerKinds, AddsTheDeltaAndNormalisesTheSum) {
  test::on_one_rank([](const auto& run) {
    TestParams params(run);
    auto* weight = params.add("w", {kWidth}, 1);
    auto* bias = GetParam() ? params.add("b", {kWidth}) : nullptr;
    const NormLayer layer(weight, bias, kEps);
    const auto x = test::normal(run, {kRows, kWidth}, 1), delta = test::normal(run, {kRows, kWidth}, 2);
    for (const bool pending : {false, true}) {
      Residual stream{x, pending ? delta : Tensor{}};
      NormLayer::Saved saved;
      const auto y = layer.forward(run, stream, saved);
      EXPECT_FALSE(stream.delta);
      const auto xs = test::numbers(x, run), ds = test::numbers(delta, run),
                 sums = test::numbers(stream.x, run);
      const auto ys = test::numbers(y, run);
      for (std::size_t i = 0; i < xs.size(); ++i) ASSERT_EQ(sums[i], xs[i] + (pending ? ds[i] : 0.0));
      for (std::size_t r = 0; r < kRows; ++r) {
        const auto begin = sums.begin() + static_cast<std::ptrdiff_t>(r * kWidth);
        const auto row = naive({begin, begin + kWidth}, test::numbers(weight->weight, run),
                               bias ? test::numbers(bias->weight, run) : std::vector<double>{});
        for (std::size_t i = 0; i < kWidth; ++i) ASSERT_NEAR(ys[r * kWidth + i], row[i], 1e-13);
      }
      EXPECT_TRUE(test::same_bits(layer.again(run, saved), y));
    }
  });
}

// backward() returns the gradient of x + delta: what reaches it around the norm and what comes through it.
TEST_P(NormLayerKinds, Gradients) {
  test::on_one_rank([](const auto& run) {
    TestParams params(run);
    auto* weight = params.add("w", {kWidth}, 1);
    const NormLayer layer(weight, GetParam() ? params.add("b", {kWidth}) : nullptr, kEps);
    const auto delta = test::normal(run, {kRows, kWidth}, 2), around = test::normal(run, {kRows, kWidth}, 3);
    for (const bool pending : {false, true}) {
      // Both parts side by side: the normalised rows, then the sum itself.
      const auto forward = [&](const Tensor& x, NormLayer::Saved& saved) {
        Residual stream{x, pending ? delta : Tensor{}};
        const auto y = layer.forward(run, stream, saved);
        auto both = run.activation({2 * kRows, kWidth});
        run(Convert{.x = y, .y = both.rows(0, kRows)});
        run(Convert{.x = stream.x, .y = both.rows(kRows, 2 * kRows)});
        return both;
      };
      test::check_row_layer(run, test::normal(run, {kRows, kWidth}, 1), params,
                            {.forward =
                                 [&](const Tensor& x) {
                                   NormLayer::Saved saved;
                                   return forward(x, saved);
                                 },
                             .gradient =
                                 [&](const Tensor& x, const Tensor& dy) {
                                   NormLayer::Saved saved;
                                   forward(x, saved);
                                   return layer.backward(run, dy.rows(0, kRows), dy.rows(kRows, 2 * kRows),
                                                         saved);
                                 }});
    }
  });
}

INSTANTIATE_TEST_SUITE_P(RmsAndLayer, NormLayerKinds, testing::Bool());

}  // namespace
}  // namespace fivefold
