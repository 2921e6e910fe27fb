// The two linears: values against the sums they stand for, gradients by differences, and on several tensor
// ranks the bias that a wrong order of sum and bias would show.
#include "model/linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/transfer.h"
#include "tests/support/layer_run.h"

namespace fivefold {
namespace {

using test::TestParams;

template <class Layer>
test::RowLayer rows_through(const Run& run, const Layer& layer) {
  return {.forward =
              [&run, &layer](const Tensor& x) {
                typename Layer::Saved saved;
                return layer.forward(run, x, saved);
              },
          .gradient =
              [&run, &layer](const Tensor& x, const Tensor& dy) {
                typename Layer::Saved saved;
                layer.forward(run, x, saved);
                const auto dx = layer.backward_input(run, dy, saved);
                layer.backward_weight(run, saved);
                return dx;
              }};
}

TEST(Linear, ColumnIsOneProductOverItsWeights) {
  test::on_one_rank([](const auto& run) {
    for (const bool biased : {false, true}) {
      TestParams params(run);
      const auto weights = params.add({{"q", {4, 5}}, {"k", {2, 5}}, {"v", {3, 5}}});
      const auto biases =
          biased ? params.add({{"bq", {4}}, {"bk", {2}}, {"bv", {3}}}) : std::vector<Param*>{};
      const ColumnLinear layer(weights, biases);
      const auto x = test::normal(run, {7, 5}, 1);
      ColumnLinear::Saved saved;
      const auto y = test::numbers(layer.forward(run, x, saved), run);
      ASSERT_EQ(y.size(), 63u);
      const auto xs = test::numbers(x, run);
      std::size_t at = 0;
      for (std::size_t row = 0; row < 7; ++row)
        for (std::size_t part = 0; part < 3; ++part)
          for (std::int64_t out = 0; out < weights[part]->global[0]; ++out, ++at) {
            const auto w = test::numbers(weights[part]->weight, run);
            double sum = biased ? test::numbers(biases[part]->weight, run)[static_cast<std::size_t>(out)] : 0;
            for (std::size_t i = 0; i < 5; ++i)
              sum += xs[row * 5 + i] * w[static_cast<std::size_t>(out) * 5 + i];
            ASSERT_NEAR(y[at], sum, 1e-13) << row << ' ' << part << ' ' << out;
          }
      test::check_row_layer(run, x, params, rows_through(run, layer));
    }
  });
}

TEST(Linear, RowGradients) {
  test::on_one_rank([](const auto& run) {
    for (const bool biased : {false, true}) {
      TestParams params(run);
      auto* weight = params.add("w", {3, 6});
      const RowLinear layer(weight, biased ? params.add("b", {3}) : nullptr);
      test::check_row_layer(run, test::normal(run, {5, 6}, 1), params, rows_through(run, layer));
    }
  });
}

Tensor uploaded(const Run& run, const std::vector<double>& values, Shape shape) {
  return upload(run.memory, values, shape, run.dtype, Tag::activations, run.stream);
}

// The report's numbers: rows x = [[1, 2], [3, 4]], weight [[10, 10], [20, 50], [30, 140]] and bias [100, 200,
// 300]. One bias too many a rank would show as 100, 200, 300 more. B22: the bias of a row linear enters the
// sum once. B23: its gradient is that of one rank.
TEST(Linear, RowBiasEntersOnceOnEveryDegree) {
  for (const int tp : {1, 2}) {
    test::on_ranks({.tp = tp}, DType::f64, [&](const auto& run) {
      Param weight, bias;
      weight.global = {3, 2};
      bias.global = {3};
      weight.compute = PartitionSpec{}.with(1, {.axes = {Axis::tp}});
      place(weight, run.mesh.layout(), run.mesh.position());
      place(bias, run.mesh.layout(), run.mesh.position());
      const auto rank = run.mesh.coordinate(Axis::tp);
      const std::vector<double> w{10, 10, 20, 50, 30, 140}, xs{1, 2, 3, 4};
      const auto columns = [&](const std::vector<double>& all, std::size_t rows) {
        std::vector<double> mine;
        for (std::size_t r = 0; r < rows; ++r)
          for (int c = 0; c < 2; ++c)
            if (tp == 1 || c == rank) mine.push_back(all[r * 2 + static_cast<std::size_t>(c)]);
        return mine;
      };
      weight.weight = uploaded(run, columns(w, 3), {3, 2 / tp});
      weight.gradient = run.zeros({3, 2 / tp}, DType::f64, Tag::gradients);
      bias.weight = uploaded(run, {100, 200, 300}, {3});
      bias.gradient = run.zeros({3}, DType::f64, Tag::gradients);
      const RowLinear layer(&weight, &bias);
      RowLinear::Saved saved;
      const auto y = layer.forward(run, uploaded(run, columns(xs, 2), {2, 2 / tp}), saved);
      const std::vector<double> all{130, 320, 610, 170, 460, 950};  // y of both rows
      const auto first = static_cast<std::size_t>(rank * 2 / tp) * 3;
      const auto mine = test::numbers(y, run);
      ASSERT_EQ(mine.size(), all.size() / static_cast<std::size_t>(tp));
      for (std::size_t i = 0; i < mine.size(); ++i) EXPECT_EQ(mine[i], all[first + i]);
      layer.backward_input(run, uploaded(run, std::vector<double>(mine.size(), 1 + rank), y.shape()), saved);
      layer.backward_weight(run, saved);
      // Gradients of replicas are parts of one sum: 1 a row of rank 0, 2 a row of rank 1.
      const double rows = 2.0 / tp;
      EXPECT_EQ(test::numbers(bias.gradient, run), std::vector<double>(3, rows * (1 + rank)));
    });
  }
}

// A step's first product writes the sum of a parameter to which nothing else adds, whatever its memory holds;
// the next ones add, and a unit without any has zeros.
TEST(ColumnLinear, TheFirstProductOfAStepNeedsNoZeros) {
  for (const int zero : {1, 2})
    test::on_ranks({.shard = 2}, DType::f64, [&](const auto& run) {
      Param w{.name = "w", .global = {4, 3}, .products_only = true};
      place(w, run.mesh.layout(), run.mesh.position());
      FsdpUnit unit(run, "unit", {{&w}}, {.stage = zero});
      unit.unshard(run), unit.ready(run);
      const ColumnLinear layer({&w}, {});
      for (const int products : {1, 3, 0, 2}) {
        unit.zero_grads(run);
        unit.begin_backward(run);
        run(Fill{.x = w.gradient, .value = NAN});
        for (int i = 0; i < products; ++i) {
          ColumnLinear::Saved saved{.x = run.zeros({2, 3}, DType::f64, Tag::activations),
                                    .dy = run.zeros({2, 4}, DType::f64, Tag::activations)};
          run(Fill{.x = saved.x, .value = 0.5}), run(Fill{.x = saved.dy, .value = 3});
          layer.backward_weight(run, saved);
        }
        unit.reduce_grads(run), unit.finish_grads(run);
        // Two rows of 1.5 a product and rank.
        for (const double g : test::numbers(unit.params()[0].gradient, run)) EXPECT_EQ(g, 6.0 * products);
      }
    });
}

}  // namespace
}  // namespace fivefold
