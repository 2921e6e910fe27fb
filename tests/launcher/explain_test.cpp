// --explain-grads says what the running code does: against brute force over positions, and against engines.
#include "launcher/explain.h"

#include <gtest/gtest.h>

#include <set>

#include "core/philox.h"
#include "launcher/engine_options.h"
#include "model/placement.h"
#include "parallel/comm/lone_transport.h"
#include "tests/support/trajectory.h"

namespace fivefold {
namespace {

// Positions that one printed sum adds for `position`: those that differ along its axes only, within one part
// of the last.
std::set<int> summed_with(const GradientSum& sum, const std::vector<int>& pp_ranks, const MeshLayout& mesh,
                          int position) {
  std::set<int> out;
  for (int other = 0; other < mesh.shape().world(); ++other) {
    bool same = true;
    for (const auto axis : {Axis::pp, Axis::replicate, Axis::shard, Axis::cp, Axis::tp}) {
      const int a = mesh.coordinate(position, axis), b = mesh.coordinate(other, axis);
      const bool over = std::find(sum.axes.begin(), sum.axes.end(), axis) != sum.axes.end();
      const int run =
          sum.parts > 0 && axis == sum.axes.back() ? mesh.size(axis) / sum.parts : mesh.size(axis);
      same = same && (over ? a / run == b / run : a == b);
      if (over && axis == Axis::pp)
        same = same && std::find(pp_ranks.begin(), pp_ranks.end(), b) != pp_ranks.end();
    }
    if (same) out.insert(other);
  }
  EXPECT_EQ(static_cast<int>(out.size()), sum.ranks);
  return out;
}

// Everybody whose gradient reaches `position` through the row's sums.
std::set<int> all_summed(const GradientRow& row, const MeshLayout& mesh, int position) {
  std::set<int> reached{position};
  for (const auto& sum : row.sums) {
    std::set<int> wider;
    for (const int member : reached) wider.merge(summed_with(sum, row.pp_ranks, mesh, member));
    reached = wider;
  }
  return reached;
}

// What must be summed: the gradient group of every pp rank that holds the parameter.
std::set<int> must_sum(const GradientRow& row, const MeshLayout& mesh, int position) {
  std::set<int> out;
  const int per_stage = mesh.shape().world() / mesh.shape().pp;
  for (const int pp_rank : row.pp_ranks) {
    const auto group =
        gradient_group(row.shape, row.compute, View::dense, mesh, position % per_stage + pp_rank * per_stage);
    out.insert(group.begin(), group.end());
  }
  return out;
}

ModelConfig model_of(int kind) {
  auto model = kind == 0 ? test::small_llama() : kind == 1 ? test::small_gpt2() : test::small_qwen3();
  model.layers = 4;
  return model;
}

// B1 to B9: no gradient is summed over too few or too many ranks, whatever the layout.
TEST(ExplainGradients, SumsAreGradientGroups) {
  int multiple_sums = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const auto draw = philox(12, i, 0);
    const auto pick = [&](int which, std::vector<int> values) {
      return values[draw[static_cast<std::size_t>(which)] % values.size()];
    };
    const auto more = philox(13, i, 0);
    const MeshShape shape{.pp = pick(0, {1, 2, 4}),
                          .replicate = pick(1, {1, 2, 3}),
                          .shard = pick(2, {1, 2, 3}),
                          .cp = pick(3, {1, 2}),
                          .tp = std::vector{1, 2, 4}[more[0] % 3]};
    const auto model = model_of(static_cast<int>(more[1] % 3));
    const MeshLayout mesh(shape);
    const auto plan = plan_pipeline(
        model, shape.pp, {.schedule = shape.pp == 2 ? ScheduleKind::zb_v : ScheduleKind::one_f_one_b});
    for (const auto& row : explain_gradients(model, shape, plan))
      for (int position = 0; position < shape.world(); ++position) {
        const int pp_rank = mesh.coordinate(position, Axis::pp);
        if (std::find(row.pp_ranks.begin(), row.pp_ranks.end(), pp_rank) == row.pp_ranks.end()) continue;
        const auto group = must_sum(row, mesh, position);
        EXPECT_EQ(all_summed(row, mesh, position), group)
            << row.name << " at " << position << " of " << to_string(shape);
        EXPECT_EQ(row.parts_of_sum(), static_cast<int>(group.size()));
        multiple_sums += row.sums.size() > 1;
      }
  }
  EXPECT_GT(multiple_sums, 1000);
}

// The printed holders are the ranks whose engines have the parameter, with the boxes and tied flags that are
// printed.
TEST(ExplainGradients, EnginesHoldWhatIsPrinted) {
  for (const int kind : {0, 1, 2})
    for (const auto schedule : {ScheduleKind::one_f_one_b, ScheduleKind::zb_v}) {
      const MeshShape shape{.pp = 2, .shard = 2, .tp = 2};
      const auto model = model_of(kind);
      const PipelineOptions pipeline{.schedule = schedule, .chunks = schedule == ScheduleKind::zb_v ? 2 : 1};
      const auto rows = explain_gradients(model, shape, plan_pipeline(model, shape.pp, pipeline));
      std::map<std::string, int> holders;
      std::vector<HostSlot> slots;
      for (int r = 0; r < shape.world(); ++r) slots.push_back({"host", r});
      for (int r = 0; r < shape.world(); ++r) {
        const auto transport = make_lone_transport(r, shape.world());
        Engine engine({.model = model, .mesh = shape, .pipeline = pipeline}, *transport, slots);
        for (const auto* p : engine.params()) {
          const auto& row = rows[static_cast<std::size_t>(p->param->index)];
          EXPECT_EQ(row.name, p->param->name);
          EXPECT_EQ(row.storage, p->param->storage);
          EXPECT_EQ(row.two_uses, p->param->tied);
          EXPECT_EQ(!row.sums.empty() && row.sums[0].how == GradientSum::How::pair, p->param->tied_across);
          ++holders[row.name];
        }
      }
      for (const auto& row : rows) EXPECT_EQ(row.holders, holders[row.name]) << row.name;
    }
}

TEST(ExplainGradients, GoldenText) {
  auto model = test::small_gpt2();
  model.layers = 2, model.kv_heads = 2, model.qkv_bias = false, model.mlp_bias = false;
  const MeshShape shape{.pp = 2, .replicate = 2, .tp = 4};
  const std::string golden =
      R"(gradients on pp 2 x replicate 2 x shard 1 x cp 1 x tp 4 (ep 1) = 16 ranks
d0 tp(u)/n: rows cut over tp in units of u, in n parts where that is not the axis; ranks: hold a part of the parameter; sum of: gradients of so many ranks
parameter                 shape      kernels see  between steps          pp   ranks  sum of  gradient
embed.weight              [250, 20]  d0 tp        d0 tp, shard*cp        0,1  16     4       add both pp ranks, all-reduce replicate (2)
embed.position            [16, 20]   whole        d0 shard*cp            0    8      8       all-reduce replicate*tp (8)
blocks.0.norm1.weight     [20]       whole        d0 shard*cp            0    8      8       all-reduce replicate*tp (8)
blocks.0.norm1.bias       [20]       whole        d0 shard*cp            0    8      8       all-reduce replicate*tp (8)
blocks.0.attn.q.weight    [24, 20]   d0 tp(6)     d0 tp(6), shard*cp     0    8      2       all-reduce replicate (2)
blocks.0.attn.k.weight    [12, 20]   d0 tp/2(6)   d0 tp/2(6), shard*cp   0    8      4       all-reduce replicate*tp within each of 2 tp parts (4)
blocks.0.attn.v.weight    [12, 20]   d0 tp/2(6)   d0 tp/2(6), shard*cp   0    8      4       all-reduce replicate*tp within each of 2 tp parts (4)
blocks.0.attn.out.weight  [20, 24]   d1 tp(6)     d0 shard*cp; d1 tp(6)  0    8      2       all-reduce replicate (2)
blocks.0.attn.out.bias    [20]       whole        d0 shard*cp            0    8      8       all-reduce replicate*tp (8)
blocks.0.norm2.weight     [20]       whole        d0 shard*cp            0    8      8       all-reduce replicate*tp (8)
blocks.0.norm2.bias       [20]       whole        d0 shard*cp            0    8      8       all-reduce replicate*tp (8)
blocks.0.mlp.up.weight    [28, 20]   d0 tp        d0 tp, shard*cp        0    8      2       all-reduce replicate (2)
blocks.0.mlp.down.weight  [20, 28]   d1 tp        d0 shard*cp; d1 tp     0    8      2       all-reduce replicate (2)
blocks.1.norm1.weight     [20]       whole        d0 shard*cp            0    8      8       all-reduce replicate*tp (8)
blocks.1.norm1.bias       [20]       whole        d0 shard*cp            0    8      8       all-reduce replicate*tp (8)
blocks.1.attn.q.weight    [24, 20]   d0 tp(6)     d0 tp(6), shard*cp     0    8      2       all-reduce replicate (2)
blocks.1.attn.k.weight    [12, 20]   d0 tp/2(6)   d0 tp/2(6), shard*cp   0    8      4       all-reduce replicate*tp within each of 2 tp parts (4)
blocks.1.attn.v.weight    [12, 20]   d0 tp/2(6)   d0 tp/2(6), shard*cp   0    8      4       all-reduce replicate*tp within each of 2 tp parts (4)
blocks.1.attn.out.weight  [20, 24]   d1 tp(6)     d0 shard*cp; d1 tp(6)  0    8      2       all-reduce replicate (2)
blocks.1.attn.out.bias    [20]       whole        d0 shard*cp            0    8      8       all-reduce replicate*tp (8)
blocks.1.norm2.weight     [20]       whole        d0 shard*cp            0    8      8       all-reduce replicate*tp (8)
blocks.1.norm2.bias       [20]       whole        d0 shard*cp            0    8      8       all-reduce replicate*tp (8)
blocks.1.mlp.up.weight    [28, 20]   d0 tp        d0 tp, shard*cp        0    8      2       all-reduce replicate (2)
blocks.1.mlp.down.weight  [20, 28]   d1 tp        d0 shard*cp; d1 tp     0    8      2       all-reduce replicate (2)
final_norm.weight         [20]       whole        d0 shard*cp            1    8      8       all-reduce replicate*tp (8)
final_norm.bias           [20]       whole        d0 shard*cp            1    8      8       all-reduce replicate*tp (8)
)";
  const auto text = to_text(explain_gradients(model, shape, plan_pipeline(model, 2, {})), shape);
  EXPECT_EQ(text, golden);
}

}  // namespace
}  // namespace fivefold
