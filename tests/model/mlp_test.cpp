// The MLP: gradients with and without gate and biases; what selective recompute drops comes back bit for bit.
#include "model/mlp.h"

#include <gtest/gtest.h>

#include "tests/support/layer_run.h"

namespace fivefold {
namespace {

using test::TestParams;

constexpr std::int64_t kHidden = 4, kFfn = 6;

Mlp make_mlp(TestParams& params, bool gated, bool biased) {
  Mlp::Params p{};
  if (gated) {
    const auto in = params.add({{"gate", {kFfn, kHidden}}, {"up", {kFfn, kHidden}}});
    p.gate = in[0], p.up = in[1];
  } else {
    p.up = params.add("up", {kFfn, kHidden});
  }
  p.down = params.add("down", {kHidden, kFfn});
  if (!biased) return Mlp(p);
  if (gated) {
    const auto in = params.add({{"gate.bias", {kFfn}}, {"up.bias", {kFfn}}});
    p.gate_bias = in[0], p.up_bias = in[1];
  } else {
    p.up_bias = params.add("up.bias", {kFfn});
  }
  p.down_bias = params.add("down.bias", {kHidden});
  return Mlp(p);
}

TEST(MlpLayer, Gradients) {
  test::on_one_rank([](const auto& run) {
    for (const bool gated : {true, false})
      for (const bool biased : {true, false}) {
        SCOPED_TRACE(str("gated ", gated, " biased ", biased));
        TestParams params(run);
        const auto mlp = make_mlp(params, gated, biased);
        test::check_row_layer(run, test::normal(run, {5, kHidden}, 1), params,
                              {.forward =
                                   [&](const Tensor& x) {
                                     Mlp::Saved saved;
                                     return mlp.forward(run, x, saved);
                                   },
                               .gradient =
                                   [&](const Tensor& x, const Tensor& dy) {
                                     Mlp::Saved saved;
                                     mlp.forward(run, x, saved);
                                     const auto dx = mlp.backward_input(run, dy, saved);
                                     mlp.backward_weight(run, saved);
                                     return dx;
                                   }});
      }
  });
}

TEST(MlpLayer, ForgottenActivationsComeBackBitForBit) {
  test::on_one_rank([](const auto& run) {
    for (const bool gated : {true, false}) {
      TestParams params(run);
      const auto mlp = make_mlp(params, gated, true);
      Mlp::Saved saved;
      mlp.forward(run, test::normal(run, {5, kHidden}, 1), saved);
      const auto kept = saved.out.x;
      mlp.forget(saved);
      EXPECT_FALSE(saved.out.x);
      mlp.restore(run, saved);
      EXPECT_TRUE(test::same_bits(saved.out.x, kept));
    }
  });
}

}  // namespace
}  // namespace fivefold
