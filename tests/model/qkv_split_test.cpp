// Packed rows to q, k and v: gradients for every kind of QK-norm and of rotary, and how the two rotary styles
// relate.
#include "model/qkv_split.h"

#include <gtest/gtest.h>

#include "core/transfer.h"
#include "model/rope.h"
#include "tests/support/layer_run.h"

namespace fivefold {
namespace {

using test::TestParams;

constexpr std::int64_t kQWidth = 12, kKvWidth = 6, kPacked = kQWidth + 2 * kKvWidth;  // 2 and 1 heads of 6

ModelConfig config_of(QkNorm norm, RopeStyle style) {
  ModelConfig c;
  c.hidden = 12, c.heads = 2, c.kv_heads = 1, c.head_dim = 6, c.context = 8;
  c.qk_norm = norm, c.rope_style = style, c.norm_eps = 1e-3;
  return c;
}

Tensor table(const Run& run, const std::vector<double>& values) {
  return upload(run.memory, values, {static_cast<std::int64_t>(values.size()) / 3, 3}, run.accum(),
                Tag::weights, run.stream);
}

QkvSplit split_of(const Run& run, const ModelConfig& c, bool rotary, Param* q_norm, Param* k_norm) {
  if (!rotary) return {c, q_norm, k_norm, {}, {}};
  const auto tables = rope_tables(c, c.context);
  return {c, q_norm, k_norm, table(run, tables.cos), table(run, tables.sin)};
}

// q, k and v end to end in one tensor, as one cotangent takes them.
Tensor end_to_end(const Run& run, const Qkv& qkv) {
  auto out = run.activation({qkv.q.count() + 2 * qkv.k.count()});
  std::int64_t first = 0;
  for (const auto& t : {qkv.q, qkv.k, qkv.v}) {
    run(Convert{.x = t.view({t.count()}), .y = out.slice(first, t.count())});
    first += t.count();
  }
  return out;
}

Qkv apart(const Tensor& all, std::int64_t rows) {
  const auto q = rows * kQWidth, k = rows * kKvWidth;
  return {all.slice(0, q).view({rows, 2, 6}), all.slice(q, k).view({rows, 1, 6}),
          all.slice(q + k, k).view({rows, 1, 6})};
}

struct Kind {
  QkNorm norm;
  bool rotary;
  RopeStyle style;
};

class QkvSplitKinds : public testing::TestWithParam<Kind> {};

TEST_P(QkvSplitKinds, Gradients) {
  test::on_one_rank([](const auto& run) {
    const auto kind = GetParam();
    TestParams params(run);
    const bool full = kind.norm == QkNorm::full, normed = kind.norm != QkNorm::none;
    auto* q_norm = normed ? params.add("q_norm", {full ? kQWidth : 6}, 1) : nullptr;
    auto* k_norm = normed ? params.add("k_norm", {full ? kKvWidth : 6}, 1) : nullptr;
    const auto layer = split_of(run, config_of(kind.norm, kind.style), kind.rotary, q_norm, k_norm);
    const auto rows = test::token_rows(run, {.sequences = {{3, 2}}});
    test::check_row_layer(run, test::normal(run, {5, kPacked}, 1), params,
                          {.forward =
                               [&](const Tensor& x) {
                                 QkvSplit::Saved saved;
                                 return end_to_end(run, layer.forward(run, x, kQWidth, rows, saved));
                               },
                           .gradient =
                               [&](const Tensor& x, const Tensor& dy) {
                                 QkvSplit::Saved saved;
                                 layer.forward(run, x, kQWidth, rows, saved);
                                 return layer.backward(run, apart(end_to_end(run, apart(dy, 5)), 5), rows,
                                                       saved);
                               }});
  });
}

INSTANTIATE_TEST_SUITE_P(
    NormsAndStyles, QkvSplitKinds,
    testing::Values(Kind{QkNorm::none, false, RopeStyle::half}, Kind{QkNorm::none, true, RopeStyle::half},
                    Kind{QkNorm::none, true, RopeStyle::interleaved},
                    Kind{QkNorm::head, false, RopeStyle::half}, Kind{QkNorm::head, true, RopeStyle::half},
                    Kind{QkNorm::head, true, RopeStyle::interleaved},
                    Kind{QkNorm::full, false, RopeStyle::half}, Kind{QkNorm::full, true, RopeStyle::half},
                    Kind{QkNorm::full, true, RopeStyle::interleaved}));

// Pairs (i, i + 3) of the one style are the neighbours (2i, 2i + 1) of the other: columns in another order,
// the same values.
TEST(QkvSplit, StylesAreOrdersOfOneRotation) {
  test::on_one_rank([](const auto& run) {
    const auto rows = test::token_rows(run, {.sequences = {{5}}});
    const auto x = test::normal(run, {5, kPacked}, 1);
    const auto interleaved_column = [](std::int64_t c) {
      return c / 6 * 6 + (c % 6 < 3 ? 2 * (c % 6) : 2 * (c % 6 - 3) + 1);
    };
    const auto values = test::numbers(x, run);
    std::vector<double> reordered(values.size());
    for (std::int64_t r = 0; r < 5; ++r)
      for (std::int64_t c = 0; c < kPacked; ++c)
        reordered[static_cast<std::size_t>(r * kPacked + interleaved_column(c))] =
            values[static_cast<std::size_t>(r * kPacked + c)];
    const auto other = upload(run.memory, reordered, x.shape(), DType::f64, Tag::activations, run.stream);
    QkvSplit::Saved saved;
    const auto half = split_of(run, config_of(QkNorm::none, RopeStyle::half), true, nullptr, nullptr)
                          .forward(run, x, kQWidth, rows, saved);
    const auto inter = split_of(run, config_of(QkNorm::none, RopeStyle::interleaved), true, nullptr, nullptr)
                           .forward(run, other, kQWidth, rows, saved);
    const auto q = test::numbers(half.q, run), p = test::numbers(inter.q, run);
    for (std::int64_t r = 0; r < 5; ++r)
      for (std::int64_t c = 0; c < kQWidth; ++c)
        ASSERT_EQ(q[static_cast<std::size_t>(r * kQWidth + c)],
                  p[static_cast<std::size_t>(r * kQWidth + interleaved_column(c))]);
  });
}

}  // namespace
}  // namespace fivefold
