// A block: gradients through all of it, the weight step apart from the input step, and what recompute drops
// and makes again.
#include "model/block.h"

#include <gtest/gtest.h>

#include "core/transfer.h"
#include "model/recompute.h"
#include "model/rope.h"
#include "tests/support/layer_run.h"

namespace fivefold {
namespace {

using test::TestParams;

constexpr std::int64_t kHidden = 6, kFfn = 5;

// LayerNorm, biases and GELU, or RMSNorm, QK-norm and SwiGLU.
Block make_block(const Run& run, TestParams& params, bool gpt2) {
  ModelConfig c;
  c.hidden = kHidden, c.heads = 2, c.kv_heads = gpt2 ? 2 : 1, c.head_dim = 4, c.context = 8;
  c.qk_norm = gpt2 ? QkNorm::none : QkNorm::head;
  const auto norm = [&](const std::string& name) {
    auto* weight = params.add(name, {kHidden}, 1, 0.3);
    return NormLayer(weight, gpt2 ? params.add(name + ".bias", {kHidden}) : nullptr, 1e-5);
  };
  const auto kv = c.kv_width();
  const auto qkv = params.add({{"q", {8, kHidden}}, {"k", {kv, kHidden}}, {"v", {kv, kHidden}}});
  const auto qkv_bias =
      gpt2 ? params.add({{"q.bias", {8}}, {"k.bias", {kv}}, {"v.bias", {kv}}}) : std::vector<Param*>(3);
  const auto head_norm = [&](const char* name) { return gpt2 ? nullptr : params.add(name, {4}, 1, 0.3); };
  const auto bias = [&](const char* name, std::int64_t rows) {
    return gpt2 ? params.add(name, {rows}) : nullptr;
  };
  const auto table = [&](const std::vector<double>& values) {
    if (gpt2) return Tensor{};
    return upload(run.memory, values, {8, 2}, run.accum(), Tag::weights, run.stream);
  };
  const auto tables = rope_tables(c, 8);
  const Attention attention(c,
                            {.q = qkv[0],
                             .k = qkv[1],
                             .v = qkv[2],
                             .q_bias = qkv_bias[0],
                             .k_bias = qkv_bias[1],
                             .v_bias = qkv_bias[2],
                             .q_norm = head_norm("q_norm"),
                             .k_norm = head_norm("k_norm"),
                             .out = params.add("out", {kHidden, 8}),
                             .out_bias = bias("out.bias", kHidden)},
                            table(tables.cos), table(tables.sin));
  Mlp::Params mlp{};
  if (gpt2) {
    mlp.up = params.add("up", {kFfn, kHidden});
    mlp.up_bias = bias("up.bias", kFfn);
  } else {
    const auto in = params.add({{"gate", {kFfn, kHidden}}, {"up", {kFfn, kHidden}}});
    mlp.gate = in[0], mlp.up = in[1];
  }
  mlp.down = params.add("down", {kHidden, kFfn});
  mlp.down_bias = bias("down.bias", kHidden);
  return {norm("norm1"), attention, norm("norm2"), Mlp(mlp)};
}

class BlockKinds : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(LlamaAndGpt2, BlockKinds, testing::Bool());

TEST_P(BlockKinds, Gradients) {
  test::on_one_rank([](const auto& run) {
    TestParams params(run);
    const auto block = make_block(run, params, GetParam());
    const auto rows = test::token_rows(run, {.sequences = {{4, 3}}, .padding = 1});
    const auto delta = test::normal(run, {8, kHidden}, 2);
    test::check_row_layer(run, test::normal(run, {8, kHidden}, 1), params,
                          {.forward =
                               [&](const Tensor& x) {
                                 Block::Saved saved;
                                 return summed(run, block.forward(run, {x, delta}, rows, saved));
                               },
                           .gradient =
                               [&](const Tensor& x, const Tensor& dy) {
                                 Block::Saved saved;
                                 block.forward(run, {x, delta}, rows, saved);
                                 const auto dx = block.backward_input(run, dy, rows, saved);
                                 block.backward_weight(run, saved);
                                 return dx;
                               }});
  });
}

std::vector<std::vector<double>> gradients(TestParams& params, const Run& run) {
  std::vector<std::vector<double>> all;
  for (auto& p : params.all()) all.push_back(test::numbers(p.gradient, run));
  return all;
}

// Two micro-batches whose weight steps come after both input steps, against one after the other.
TEST_P(BlockKinds, WeightStepsMayComeLater) {
  test::on_one_rank([](const auto& run) {
    TestParams params(run);
    const auto block = make_block(run, params, GetParam());
    const std::array rows{test::token_rows(run, {.sequences = {{8}}}),
                          test::token_rows(run, {.sequences = {{2, 3}}})};
    const std::array x{test::normal(run, {8, kHidden}, 1), test::normal(run, {5, kHidden}, 2)};
    const std::array dy{test::normal(run, {8, kHidden}, 3), test::normal(run, {5, kHidden}, 4)};
    std::array<Tensor, 2> dx_fused, dx_split;
    for (std::size_t m = 0; m < 2; ++m) {
      Block::Saved saved;
      block.forward(run, {x[m], {}}, rows[m], saved);
      dx_fused[m] = block.backward_input(run, dy[m], rows[m], saved);
      block.backward_weight(run, saved);
    }
    const auto fused = gradients(params, run);
    params.fill_gradients(0);
    std::array<Block::Saved, 2> saved;
    for (std::size_t m = 0; m < 2; ++m) block.forward(run, {x[m], {}}, rows[m], saved[m]);
    for (std::size_t m = 0; m < 2; ++m) dx_split[m] = block.backward_input(run, dy[m], rows[m], saved[m]);
    for (std::size_t m = 0; m < 2; ++m) block.backward_weight(run, saved[m]);
    EXPECT_EQ(gradients(params, run), fused);
    for (std::size_t m = 0; m < 2; ++m) EXPECT_TRUE(test::same_bits(dx_split[m], dx_fused[m]));
  });
}

// The policies give the same bits, and keep less from one to the next.
TEST_P(BlockKinds, RecomputeGivesTheSameBitsForLessMemory) {
  test::on_one_rank([](const auto& run) {
    TestParams params(run);
    const auto rows = test::token_rows(run, {.sequences = {{4, 4}}});
    const auto x = test::normal(run, {8, kHidden}, 1), delta = test::normal(run, {8, kHidden}, 2);
    const auto dy = test::normal(run, {8, kHidden}, 3);
    const auto block = make_block(run, params, GetParam());
    std::vector<std::vector<double>> first;
    Tensor first_dx;
    auto kept_before = INT64_MAX;
    for (const auto policy : {RecomputePolicy::none, RecomputePolicy::selective, RecomputePolicy::full}) {
      const Recompute layer(block, policy);
      params.fill_gradients(0);
      typename Recompute<Block>::Saved saved;
      const auto before = run.memory.report().now_total;
      layer.forward(run, {x, delta}, rows, saved);
      const auto kept = run.memory.report().now_total - before;
      EXPECT_LT(kept, kept_before) << static_cast<int>(policy);
      kept_before = kept;
      const auto dx = layer.backward_input(run, dy, rows, saved);
      layer.backward_weight(run, saved);
      if (policy == RecomputePolicy::none) first = gradients(params, run), first_dx = dx;
      EXPECT_EQ(gradients(params, run), first) << static_cast<int>(policy);
      EXPECT_TRUE(test::same_bits(dx, first_dx)) << static_cast<int>(policy);
    }
  });
}

}  // namespace
}  // namespace fivefold
