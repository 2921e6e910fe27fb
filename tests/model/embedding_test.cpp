// Embeddings: looked-up rows, gradients that gather every use of an id, learned positions that restart with
// documents.
#include "model/embedding.h"

#include <gtest/gtest.h>

#include "tests/support/layer_run.h"

namespace fivefold {
namespace {

using test::TestParams;

constexpr std::int64_t kVocab = 5, kHidden = 3, kContext = 8;

TEST(EmbeddingLayer, LooksUpTokensAndPositions) {
  test::on_one_rank([](const auto& run) {
    TestParams params(run);
    auto* table = params.add("table", {kVocab, kHidden});
    auto* positions = params.add("positions", {kContext, kHidden});
    const auto rows = test::token_rows(run, {.sequences = {{3, 4}, {7}}, .vocab = kVocab, .padding = 1});
    const auto y = test::numbers(Embedding(table, positions).forward(run, rows), run);
    const auto t = test::numbers(table->weight, run), p = test::numbers(positions->weight, run);
    for (std::int64_t r = 0; r < rows.count(); ++r) {
      const auto token = rows.tokens.template data<std::int32_t>()[r],
                 position = rows.position.template data<std::int32_t>()[r];
      for (std::int64_t c = 0; c < kHidden; ++c)
        ASSERT_EQ(y[static_cast<std::size_t>(r * kHidden + c)],
                  t[static_cast<std::size_t>(token * kHidden + c)] +
                      p[static_cast<std::size_t>(position * kHidden + c)]);
    }
    EXPECT_EQ(rows.position.template data<std::int32_t>()[3], 0);  // the second document
  });
}

TEST(EmbeddingLayer, Gradients) {
  test::on_one_rank([](const auto& run) {
    for (const bool learned : {false, true}) {
      TestParams params(run);
      auto* table = params.add("table", {kVocab, kHidden});
      const Embedding layer(table, learned ? params.add("positions", {kContext, kHidden}) : nullptr);
      const auto rows = test::token_rows(run, {.sequences = {{3, 4}, {7}}, .vocab = kVocab});
      const auto dy = test::normal(run, {rows.count(), kHidden}, 9);
      Embedding::Saved saved;
      layer.forward(run, rows);
      layer.backward_input(dy, saved);
      layer.backward_weight(run, rows, saved);
      for (auto& p : params.all())
        test::expect_gradient(
            p.name, p.weight, p.gradient, [&] { return test::dot(layer.forward(run, rows), dy, run); }, run);
    }
  });
}

}  // namespace
}  // namespace fivefold
