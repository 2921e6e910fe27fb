// A whole model as one stage: every gradient by differences, the weight step apart, micro-batches in flight,
// recompute, and a tied table that is used twice.
#include "model/stage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "core/transfer.h"
#include "model/init.h"
#include "tests/support/layer_run.h"

namespace fivefold {
namespace {

using test::RowSpec;

enum class Kind { llama, gpt2, qwen };

ModelConfig config_of(Kind kind) {
  ModelConfig c;
  c.layers = 2, c.hidden = 6, c.heads = 2, c.kv_heads = 1, c.head_dim = 4, c.ffn = 5, c.vocab = 11,
  c.context = 8;
  c.init_std = 0.4;
  if (kind == Kind::gpt2) {
    c.norm = Norm::layer, c.activation = Activation::gelu, c.position = Position::learned, c.kv_heads = 2;
    c.qkv_bias = c.out_bias = c.mlp_bias = c.tie_embeddings = true;
  }
  if (kind == Kind::qwen)
    c.qk_norm = QkNorm::full, c.rope_style = RopeStyle::interleaved, c.tie_embeddings = true, c.window = 3;
  return complete(c);
}

std::unique_ptr<ParamTable> table_of(const Run& run, const ModelConfig& config) {
  auto table = make_param_table(config, run.mesh.layout(), run.mesh.position());
  table->find("embed.weight")->tied = config.tie_embeddings;
  return table;
}

// One or several stages on one rank that make up a model, with random weights and zero gradients.
class Model {
 public:
  Model(const Run& run, Kind kind, RecomputePolicy recompute = RecomputePolicy::none,
        const std::vector<StagePlan>& plans = {{.first_block = 0, .end_block = 2}})
      : run_(run),
        config_(config_of(kind)),
        table_(table_of(run, config_)),
        loss_(run.zeros({1}, DType::f64, Tag::workspace)) {
    const StageOptions options{.recompute = recompute, .zero = {}, .loss_rows = 4};
    for (const auto& plan : plans)
      stages_.emplace_back(run, config_, plan, options, *table_,
                           stages_.empty() ? nullptr : &stages_.front());
    for (auto* p : params())
      run(initial_values(*p->param, config_, {.seed = 3, .one_dimensional_noise = 0.2}, p->param->storage_box,
                         p->shard));
    for (auto* unit : units()) unit->shards_changed(), unit->zero_grads(run);
  }
  LossRequest request() const { return {.loss = loss_, .scale = 0.125}; }
  void forward(int m, const TokenRows& rows) { stage().forward(run_, m, rows, {}, request()); }
  double evaluate(const TokenRows& rows) {
    const auto loss = run_.zeros({1}, DType::f64, Tag::workspace);
    stage().forward(run_, 0, rows, {}, {.loss = loss, .scale = 0, .gradient = false});
    return to_host(loss, run_.stream)[0];
  }
  void zero() {
    for (auto* unit : units()) unit->zero_grads(run_);
    run_(Fill{.x = loss_, .value = 0});
  }
  // Complete, with both uses of a tied table, by name.
  std::map<std::string, std::vector<double>> reduced() {
    for (auto* unit : units()) unit->reduce_grads(run_);
    for (auto* unit : units()) unit->finish_grads(run_);
    std::map<std::string, std::vector<double>> all;
    for (auto* p : params()) all[p->param->name] = test::numbers(p->gradient, run_);
    return all;
  }
  std::vector<ShardedParam*> params() {
    std::vector<ShardedParam*> out;
    for (auto* unit : units())
      for (auto& p : unit->params()) out.push_back(&p);
    return out;
  }
  Stage& stage(std::size_t i = 0) { return stages_[i]; }
  double loss() const { return to_host(loss_, run_.stream)[0]; }

 private:
  std::vector<FsdpUnit*> units() {
    std::vector<FsdpUnit*> out;
    for (auto& stage : stages_)
      for (auto& unit : stage.units()) out.push_back(&unit);
    return out;
  }
  const Run& run_;
  ModelConfig config_;
  std::unique_ptr<ParamTable> table_;
  std::deque<Stage> stages_;
  Tensor loss_;
};

RowSpec spec_of(std::uint64_t seed = 1) {
  return {.sequences = {{5, 2}, {7}}, .vocab = 11, .window = 3, .padding = 1, .seed = seed};
}

class StageKinds : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Shapes, StageKinds, testing::Values(Kind::llama, Kind::gpt2, Kind::qwen));

TEST_P(StageKinds, EveryGradient) {
  test::on_one_rank([](const auto& run) {
    Model model(run, GetParam());
    const auto rows = test::token_rows(run, spec_of());
    model.forward(0, rows);
    EXPECT_EQ(model.loss(), model.evaluate(rows));
    model.stage().backward(run, 0, {});
    model.reduced();
    for (auto* p : model.params())
      test::expect_gradient(
          p->param->name, p->param->weight, p->gradient, [&] { return 0.125 * model.evaluate(rows); }, run);
  });
}

// The input steps of several micro-batches, then their weight steps; all at once per micro-batch; both with
// one after the other: the same bits. B33: of different lengths, and each counts.
TEST_P(StageKinds, OrdersOfMicroBatchesGiveTheSameBits) {
  test::on_one_rank([](const auto& run) {
    Model model(run, GetParam());
    const std::vector<TokenRows> rows{test::token_rows(run, spec_of(1)),
                                      test::token_rows(run, {.sequences = {{3}}, .vocab = 11, .seed = 2}),
                                      test::token_rows(run, spec_of(3))};
    auto& stage = model.stage();
    for (int m = 0; m < 3; ++m) {
      model.forward(m, rows[static_cast<std::size_t>(m)]);
      stage.backward(run, m, {});
    }
    const auto loss = model.loss();
    const auto one_after_the_other = model.reduced();
    model.zero();
    for (int m = 0; m < 3; ++m) model.forward(m, rows[static_cast<std::size_t>(m)]);
    for (int m = 0; m < 3; ++m) stage.backward(run, m, {});
    EXPECT_EQ(model.reduced(), one_after_the_other) << "in flight";
    EXPECT_EQ(model.loss(), loss);
    model.zero();
    for (int m = 0; m < 3; ++m) model.forward(m, rows[static_cast<std::size_t>(m)]);
    for (int m = 0; m < 3; ++m) stage.backward_input(run, m, {});
    for (int m = 0; m < 3; ++m) stage.backward_weight(run, m);
    EXPECT_EQ(model.reduced(), one_after_the_other) << "weights later";
    model.zero();
    model.forward(0, rows[0]);
    stage.backward(run, 0, {});
    EXPECT_NE(model.reduced(), one_after_the_other);  // the others counted
  });
}

TEST_P(StageKinds, RecomputeGivesTheSameBits) {
  test::on_one_rank([](const auto& run) {
    std::map<std::string, std::vector<double>> first;
    double loss = 0;
    for (const auto policy : {RecomputePolicy::none, RecomputePolicy::selective, RecomputePolicy::full}) {
      Model model(run, GetParam(), policy);
      const auto rows = test::token_rows(run, spec_of());
      model.forward(0, rows);
      model.stage().backward(run, 0, {});
      const auto gradients = model.reduced();
      if (policy == RecomputePolicy::none) first = gradients, loss = model.loss();
      EXPECT_EQ(gradients, first) << static_cast<int>(policy);
      EXPECT_EQ(model.loss(), loss) << static_cast<int>(policy);
    }
  });
}

// Logits are those of the loss: the head alone may be asked for them, row by row of the same rows.
TEST_P(StageKinds, LogitsOfTheSameRows) {
  test::on_one_rank([](const auto& run) {
    Model model(run, GetParam());
    const auto rows = test::token_rows(run, spec_of());
    const auto logits = model.stage().logits(run, rows, {});
    const auto all = test::numbers(logits, run);
    double loss = 0;
    for (std::int64_t r = 0; r < rows.count(); ++r) {
      const auto target = rows.targets.template data<std::int32_t>()[r];
      if (target < 0) continue;
      double sum = 0;
      for (std::int64_t v = 0; v < 11; ++v) sum += std::exp(all[static_cast<std::size_t>(r * 11 + v)]);
      loss += std::log(sum) - all[static_cast<std::size_t>(r * 11 + target)];
    }
    EXPECT_NEAR(loss, model.evaluate(rows), 1e-11);
  });
}

// Stages hand rows on both ways: two halves on one rank make the whole, bit for bit, also where they share a
// tied table.
TEST_P(StageKinds, HalvesMakeTheWhole) {
  test::on_one_rank([](const auto& run) {
    const auto rows = test::token_rows(run, spec_of());
    Model whole_model(run, GetParam());
    whole_model.forward(0, rows);
    whole_model.stage().backward(run, 0, {});
    Model halves(run, GetParam(), RecomputePolicy::none,
                 {{.first_block = 0, .end_block = 1, .embeds = true, .ends = false},
                  {.first_block = 1, .end_block = 2, .embeds = false, .ends = true}});
    const auto between = halves.stage(0).forward(run, 0, rows, {}, halves.request());
    EXPECT_FALSE(halves.stage(1).forward(run, 0, rows, between, halves.request()));
    EXPECT_FALSE(halves.stage(0).backward(run, 0, halves.stage(1).backward(run, 0, {})));
    EXPECT_EQ(halves.loss(), whole_model.loss());
    EXPECT_EQ(halves.reduced(), whole_model.reduced());
  });
}

}  // namespace
}  // namespace fivefold
