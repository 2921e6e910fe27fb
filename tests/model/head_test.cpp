// Final norm, projection and cross entropy: values against the plain formula, gradients, chunks of any size,
// ignored targets.
#include "model/head.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/transfer.h"
#include "tests/support/layer_run.h"

namespace fivefold {
namespace {

using test::TestParams;

constexpr std::int64_t kVocab = 11, kHidden = 4;

struct Outcome {
  double loss = 0;
  Tensor dx;
};

Outcome run_head(const Run& run, const Head& head, const Tensor& x, const TokenRows& rows, double scale) {
  Head::Saved saved;
  Outcome out;
  const LossRequest request{.loss = run.zeros({1}, DType::f64, Tag::workspace), .scale = scale};
  head.forward(run, {x, {}}, rows, request, saved);
  out.dx = head.backward_input(run, saved);
  out.loss = to_host(request.loss, run.stream)[0];
  return out;
}

double loss_alone(const Run& run, const Head& head, const Tensor& x, const TokenRows& rows) {
  Head::Saved saved;
  const LossRequest request{
      .loss = run.zeros({1}, DType::f64, Tag::workspace), .scale = 0, .gradient = false};
  head.forward(run, {x, {}}, rows, request, saved);
  return to_host(request.loss, run.stream)[0];
}

// Sum over targets of log(sum exp(logits)) - logit of the target, from Head::logits.
double naive_loss(const Run& run, const Head& head, const Tensor& x, const TokenRows& rows) {
  const auto logits = test::numbers(head.logits(run, {x, {}}), run);
  double loss = 0;
  for (std::int64_t r = 0; r < rows.count(); ++r) {
    const auto target = rows.targets.data<std::int32_t>()[r];
    if (target < 0) continue;
    double sum = 0;
    for (std::int64_t v = 0; v < kVocab; ++v)
      sum += std::exp(logits[static_cast<std::size_t>(r * kVocab + v)]);
    loss += std::log(sum) - logits[static_cast<std::size_t>(r * kVocab + target)];
  }
  return loss;
}

class HeadChunks : public testing::TestWithParam<std::int64_t> {};

// 9 rows in chunks of 1, 2, 4, 9 and 64 rows: most do not divide them.
TEST_P(HeadChunks, LossAndGradients) {
  test::on_one_rank([](const auto& run) {
    TestParams params(run);
    const NormLayer norm(params.add("norm", {kHidden}, 1), params.add("norm.bias", {kHidden}), 1e-5);
    const Head head(norm, params.add("head", {kVocab, kHidden}), GetParam());
    const auto rows = test::token_rows(
        run, {.sequences = {{3, 4}}, .vocab = kVocab, .padding = 2});  // 5 of 9 rows have a target
    const auto x = test::normal(run, {9, kHidden}, 1);
    const double scale = 0.2;
    const auto out = run_head(run, head, x, rows, scale);
    EXPECT_NEAR(out.loss, naive_loss(run, head, x, rows), 1e-12);
    EXPECT_EQ(out.loss, loss_alone(run, head, x, rows));
    const auto objective = [&] { return scale * loss_alone(run, head, x, rows); };
    test::expect_gradient("x", x, out.dx, objective, run);
    for (auto& p : params.all()) test::expect_gradient(p.name, p.weight, p.gradient, objective, run);
  });
}
INSTANTIATE_TEST_SUITE_P(Rows, HeadChunks, testing::Values(1, 2, 4, 9, 64));

// A tied weight keeps the head's gradient in a buffer of its own.
TEST(HeadLayer, TiedGradientGoesBesideTheFirstUse) {
  test::on_one_rank([](const auto& run) {
    TestParams params(run);
    const NormLayer norm(params.add("norm", {kHidden}, 1), nullptr, 1e-5);
    auto* weight = params.add("embed", {kVocab, kHidden});
    const auto rows = test::token_rows(run, {.sequences = {{7}}, .vocab = kVocab});
    const auto x = test::normal(run, {7, kHidden}, 1);
    const Head head(norm, weight, 3);
    run_head(run, head, x, rows, 1);
    const auto untied = test::numbers(weight->gradient, run);
    weight->tied_gradient = run.zeros(weight->global, DType::f64, Tag::gradients);
    params.fill_gradients(0);
    run_head(run, head, x, rows, 1);
    EXPECT_EQ(test::numbers(weight->tied_gradient, run), untied);
    EXPECT_EQ(test::numbers(weight->gradient, run), std::vector<double>(untied.size(), 0));
  });
}

// B16: without any target the loss is 0 and every gradient exactly 0.
TEST(HeadLayer, NothingToPredict) {
  test::on_one_rank([](const auto& run) {
    TestParams params(run);
    const NormLayer norm(params.add("norm", {kHidden}, 1), nullptr, 1e-5);
    auto* weight = params.add("head", {kVocab, kHidden});
    const auto rows = test::token_rows(run, {.sequences = {{1, 1, 1}}, .vocab = kVocab});
    const auto out = run_head(run, Head(norm, weight, 2), test::normal(run, {3, kHidden}, 1), rows, 0);
    EXPECT_EQ(out.loss, 0);
    for (const double g : test::numbers(out.dx, run)) EXPECT_EQ(g, 0);
    for (const double g : test::numbers(weight->gradient, run)) EXPECT_EQ(g, 0);
  });
}

}  // namespace
}  // namespace fivefold
