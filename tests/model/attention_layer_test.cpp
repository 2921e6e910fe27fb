// The attention layer: gradients for MHA, GQA and MQA, with a window, packed documents and padding rows, and
// what masks mean.
#include <gtest/gtest.h>

#include "core/transfer.h"
#include "model/attention.h"
#include "model/rope.h"
#include "tests/support/layer_run.h"

namespace fivefold {
namespace {

using test::RowSpec;
using test::TestParams;

constexpr std::int64_t kHidden = 6, kHeads = 4, kHeadDim = 4;

struct Shape4 {
  std::int64_t kv_heads;
  bool biases, rotary;
  QkNorm norm;
};

// The layer with parameters of random values.
struct Layer {
  TestParams params;
  std::vector<Param*> qkv, qkv_bias;
  Param *q_norm = nullptr, *k_norm = nullptr, *out, *out_bias = nullptr;
  std::optional<Attention> attention;

  Layer(const Run& run, const Shape4& s) : params(run) {
    ModelConfig c;
    c.hidden = kHidden, c.heads = kHeads, c.kv_heads = s.kv_heads, c.head_dim = kHeadDim, c.context = 16,
    c.qk_norm = s.norm;
    const auto kv = s.kv_heads * kHeadDim, q = kHeads * kHeadDim;
    qkv = params.add({{"q", {q, kHidden}}, {"k", {kv, kHidden}}, {"v", {kv, kHidden}}});
    qkv_bias =
        s.biases ? params.add({{"q.bias", {q}}, {"k.bias", {kv}}, {"v.bias", {kv}}}) : std::vector<Param*>(3);
    if (s.norm == QkNorm::head)
      q_norm = params.add("q_norm", {kHeadDim}, 1), k_norm = params.add("k_norm", {kHeadDim}, 1);
    out = params.add("out", {kHidden, q});
    if (s.biases) out_bias = params.add("out.bias", {kHidden});
    const auto table = [&](const std::vector<double>& values) {
      if (!s.rotary) return Tensor{};
      return upload(run.memory, values, {16, kHeadDim / 2}, run.accum(), Tag::weights, run.stream);
    };
    const auto tables = rope_tables(c, 16);
    attention.emplace(c,
                      Attention::Params{.q = qkv[0],
                                        .k = qkv[1],
                                        .v = qkv[2],
                                        .q_bias = qkv_bias[0],
                                        .k_bias = qkv_bias[1],
                                        .v_bias = qkv_bias[2],
                                        .q_norm = q_norm,
                                        .k_norm = k_norm,
                                        .out = out,
                                        .out_bias = out_bias},
                      table(tables.cos), table(tables.sin));
  }
  Tensor forward(const Run& run, const Tensor& x, const TokenRows& rows) const {
    Attention::Saved saved;
    return attention->forward(run, x, rows, saved);
  }
  Tensor gradient(const Run& run, const Tensor& x, const Tensor& dy, const TokenRows& rows) const {
    Attention::Saved saved;
    attention->forward(run, x, rows, saved);
    const auto dx = attention->backward_input(run, dy, rows, saved);
    attention->backward_weight(run, saved);
    return dx;
  }
};

void check_gradients(const Run& run, const Shape4& shape, const RowSpec& spec) {
  Layer layer(run, shape);
  const auto rows = test::token_rows(run, spec);
  test::check_row_layer(
      run, test::normal(run, {rows.count(), kHidden}, 1, 0.7), layer.params,
      {.forward = [&](const Tensor& x) { return layer.forward(run, x, rows); },
       .gradient = [&](const Tensor& x, const Tensor& dy) { return layer.gradient(run, x, dy, rows); }});
}

TEST(AttentionLayer, GradientsForEveryNumberOfKvHeads) {
  test::on_one_rank([](const auto& run) {
    for (const std::int64_t kv_heads : {4, 2, 1})
      for (const bool biases : {false, true}) {
        SCOPED_TRACE(str(kv_heads, " kv heads, biases ", biases));
        check_gradients(run, {kv_heads, biases, true, QkNorm::none}, {.sequences = {{6}, {6}}});
      }
  });
}

TEST(AttentionLayer, GradientsWithPerHeadNorms) {
  test::on_one_rank([](const auto& run) {
    check_gradients(run, {2, true, true, QkNorm::head}, {.sequences = {{6}}});
    check_gradients(run, {2, false, false, QkNorm::none}, {.sequences = {{6}}});
  });
}

TEST(AttentionLayer, GradientsUnderMasks) {
  test::on_one_rank([](const auto& run) {
    const Shape4 shape{2, true, true, QkNorm::none};
    check_gradients(run, shape, {.sequences = {{9}}, .window = 3});
    check_gradients(run, shape, {.sequences = {{2, 3, 1}, {4, 2}}});
    check_gradients(run, shape, {.sequences = {{2, 5}, {7}}, .window = 2, .padding = 3});
  });
}

// A window of one key leaves a row's own value: the layer is then the v product followed by the out product.
TEST(AttentionLayer, WindowCountsTheRowItself) {
  test::on_one_rank([](const auto& run) {
    Layer layer(run, {4, false, true, QkNorm::none});
    const auto x = test::normal(run, {5, kHidden}, 1);
    const auto y =
        test::numbers(layer.forward(run, x, test::token_rows(run, {.sequences = {{5}}, .window = 1})), run);
    ColumnLinear::Saved v_saved;
    RowLinear::Saved out_saved;
    const auto v = ColumnLinear({layer.qkv[2]}, {}).forward(run, x, v_saved);
    const auto wanted = test::numbers(RowLinear(layer.out, nullptr).forward(run, v, out_saved), run);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], wanted[i], 1e-12);
  });
}

// Documents in one sequence do not see each other and count their own positions: each is as if it were alone.
TEST(AttentionLayer, PackedDocumentsAreAsIfAlone) {
  test::on_one_rank([](const auto& run) {
    const Layer layer(run, {2, true, true, QkNorm::none});
    const std::vector<std::int64_t> lengths{3, 1, 5};
    const auto x = test::normal(run, {9, kHidden}, 1);
    const auto packed = layer.forward(run, x, test::token_rows(run, {.sequences = {lengths}}));
    std::int64_t begin = 0;
    for (const auto length : lengths) {
      const auto alone =
          layer.forward(run, x.rows(begin, begin + length), test::token_rows(run, {.sequences = {{length}}}));
      const auto a = test::numbers(alone, run), p = test::numbers(packed.rows(begin, begin + length), run);
      for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], p[i], 1e-13) << "document at " << begin;
      begin += length;
    }
    // The mask matters at all: one document of nine rows gives something else.
    EXPECT_FALSE(test::same_bits(packed, layer.forward(run, x, test::token_rows(run, {.sequences = {{9}}}))));
  });
}

// B43: rows that see nothing give the bias alone and pass no gradient on, whatever stands in them.
TEST(AttentionLayer, PaddingRowsAreInert) {
  test::on_one_rank([](const auto& run) {
    const Layer layer(run, {2, false, true, QkNorm::none});
    const auto rows = test::token_rows(run, {.sequences = {{4}}, .padding = 2});
    const auto x = test::normal(run, {6, kHidden}, 1);
    const auto y = test::numbers(layer.forward(run, x, rows), run);
    const auto dx = test::numbers(layer.gradient(run, x, test::normal(run, {6, kHidden}, 2), rows), run);
    for (std::size_t i = 4 * kHidden; i < 6 * kHidden; ++i) {
      EXPECT_EQ(y[i], 0);
      EXPECT_EQ(dx[i], 0);
    }
  });
}

}  // namespace
}  // namespace fivefold
