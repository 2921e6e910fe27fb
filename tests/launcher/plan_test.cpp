// A plan is what a run does: bytes on the wire and memory against real ranks, rank by rank and to the byte.
#include "launcher/plan.h"

#include <gtest/gtest.h>

#include <ctime>

#include "launcher/batches.h"
#include "launcher/bench_step.h"
#include "launcher/engine_options.h"
#include "launcher/op_profile.h"
#include "model/cost.h"
#include "parallel/comm/thread_world.h"
#include "parallel/pipeline/passes.h"
#include "tests/support/trajectory.h"

namespace fivefold {
namespace {

enum class Kind { llama, gpt2, qwen3 };

struct Case {
  std::string name;
  Kind kind = Kind::llama;
  MeshShape mesh;
  std::function<void(Config&)> change = [](Config&) {};
};

Config config_of(const Case& c) {
  Config config;
  config.model = c.kind == Kind::llama  ? test::small_llama()
                 : c.kind == Kind::gpt2 ? test::small_gpt2()
                                        : test::small_qwen3();
  config.model.layers = 4;
  config.data.sequence = 12;
  config.train.global_batch = 7, config.train.micro_batch = 2, config.train.loss_rows = 7;
  auto& p = config.parallel;
  p.pp = c.mesh.pp, p.replicate = c.mesh.replicate, p.shard = c.mesh.shard, p.cp = c.mesh.cp,
  p.tp = c.mesh.tp;
  c.change(config);
  check(config, c.mesh.world());
  return config;
}

void zero(Config& c, int stage, ReduceWhen reduce = ReduceWhen::step, Reshard reshard = Reshard::automatic) {
  c.parallel.zero = stage, c.parallel.reduce = reduce, c.parallel.reshard = reshard;
}
void pipeline(Config& c, ScheduleKind kind, int chunks = 1) {
  c.parallel.schedule = kind, c.parallel.chunks = chunks;
}

void narrow_state(Config& c, MasterStorage master) {
  c.train.precision = DType::bf16, c.train.master = master;
  c.train.moments = c.train.gradients = DType::bf16;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> table{
      {"one rank", Kind::llama, {}},
      {"one rank that frees its weights", Kind::gpt2, {}, [](auto& c) { zero(c, 3); }},
      {"shard", Kind::llama, {.shard = 4}},
      {"shard 3, zero 2, each micro-batch",
       Kind::gpt2,
       {.shard = 3},
       [](auto& c) { zero(c, 2, ReduceWhen::micro_batch); }},
      {"tied on one rank, zero 3",
       Kind::gpt2,
       {.shard = 2},
       [](auto& c) { zero(c, 3), c.train.micro_batch = 1; }},
      {"zero 3 kept, bf16",
       Kind::llama,
       {.shard = 2, .tp = 2},
       [](auto& c) { zero(c, 3, ReduceWhen::step, Reshard::step), c.train.precision = DType::bf16; }},
      {"replicas",
       Kind::llama,
       {.replicate = 2, .shard = 2, .tp = 2},
       [](auto& c) { c.train.precision = DType::f64; }},
      {"fewer kv heads than tp", Kind::llama, {.tp = 4}},
      {"fewer kv heads and replicas", Kind::qwen3, {.replicate = 2, .tp = 4}},
      {"tp alone", Kind::gpt2, {.tp = 2}, [](auto& c) { c.train.recompute = RecomputePolicy::full; }},
      {"split masters, bf16 state, each micro-batch",
       Kind::llama,
       {.replicate = 2, .shard = 3},
       [](auto& c) { zero(c, 2, ReduceWhen::micro_batch), narrow_state(c, MasterStorage::split); }},
      {"bf16 state, tied across",
       Kind::gpt2,
       {.pp = 2, .shard = 2},
       [](auto& c) { zero(c, 3), narrow_state(c, MasterStorage::bf16); }},
      {"ring", Kind::llama, {.cp = 4}, [](auto& c) { c.train.precision = DType::bf16; }},
      {"ring through a window", Kind::qwen3, {.cp = 4, .tp = 2}, [](auto& c) { c.data.sequence = 16; }},
      {"gather",
       Kind::llama,
       {.shard = 2, .cp = 2},
       [](auto& c) { c.parallel.cp_strategy = CpStrategy::gather; }},
      {"ulysses",
       Kind::llama,
       {.cp = 2, .tp = 2},
       [](auto& c) {
         c.parallel.cp_strategy = CpStrategy::ulysses, c.train.recompute = RecomputePolicy::full;
       }},
      {"tied across", Kind::gpt2, {.pp = 2, .cp = 2, .tp = 2}},
      {"tied across four, each micro-batch",
       Kind::gpt2,
       {.pp = 4, .shard = 2},
       [](auto& c) { zero(c, 2, ReduceWhen::micro_batch), c.train.micro_batch = 1; }},
      {"gpipe, zero 3",
       Kind::llama,
       {.pp = 2, .shard = 2},
       [](auto& c) {
         zero(c, 3, ReduceWhen::step, Reshard::always), pipeline(c, ScheduleKind::gpipe),
             c.train.micro_batch = 1;
       }},
      {"interleaved",
       Kind::gpt2,
       {.pp = 2, .shard = 2},
       [](auto& c) {
         pipeline(c, ScheduleKind::interleaved, 2), c.train.recompute = RecomputePolicy::full,
                                                    c.train.micro_batch = 1;
       }},
      {"zb-h1",
       Kind::qwen3,
       {.pp = 4},
       [](auto& c) { pipeline(c, ScheduleKind::zb_h1), c.train.recompute = RecomputePolicy::selective; }},
      {"zb-v, tied where both ends meet",
       Kind::gpt2,
       {.pp = 2, .shard = 2},
       [](auto& c) {
         pipeline(c, ScheduleKind::zb_v, 2), zero(c, 3, ReduceWhen::micro_batch, Reshard::always),
             c.train.micro_batch = 1;
       }},
  };
  return table;
}

// What a rank of a real run did in its second step.
struct Measured {
  std::map<std::string, std::int64_t> sent, predicted;  // bytes by name of the group
  MemoryReport memory;
};

std::map<std::string, std::int64_t> predicted(const Config& config, const Plan& plan, Engine& engine) {
  const auto options = engine_options(config, engine.mesh().shape().world());
  std::map<std::string, std::int64_t> out;
  for (const auto& traffic : step_traffic({.model = config.model,
                             .pipeline = plan.pipeline,
                             .schedule = plan.schedule,
                             .stage = options.stage,
                             .dtype = options.dtype,
                             .shape = plan.shape},
                                          engine.mesh().layout(), engine.mesh().position())) {
    const auto& g = traffic.group;
    auto& comm = g.axes.empty() ? engine.mesh().world() : engine.mesh().over(g.axes, g.purpose, g.parts);
    EXPECT_EQ(traffic.ranks, comm.size()) << comm.name();
    out[comm.name()] += traffic.bytes;
  }
  return out;
}

Measured measure(const Config& config, const Plan& plan, Transport& transport,
                 const std::vector<HostSlot>& slots) {
  Engine engine(engine_options(config, transport.world().size()), transport, slots);
  engine.initialize({.seed = 1});
  const auto batch_plan = plan_batches(engine.mesh(), config.train.global_batch, config.train.micro_batch,
                                       config.model.window, config.parallel.cp_strategy);
  const BatchSource source = [&](auto first, auto count, auto real) {
    return random_batch(first, count, real, sequence_length(config), config.model.vocab);
  };
  Measured out;
  for (int step = 0; step < 2; ++step) {
    transport.world().ledger().reset_totals();
    const auto batches = step_batches(source, batch_plan, step * config.train.global_batch);
    engine.update(engine.accumulate(batches, engine.agree(valid_targets(batches), false).sum), 1e-3);
  }
  for (const auto& [name, totals] : transport.world().ledger().totals())
    if (totals.sent_bytes > 0) out.sent[name] = totals.sent_bytes;
  out.predicted = predicted(config, plan, engine);
  out.memory = engine.memory().report();
  return out;
}

std::vector<Measured> measure(const Config& config, const Plan& plan) {
  const int world = plan.mesh.world();
  std::vector<HostSlot> slots;
  for (int r = 0; r < world; ++r) slots.push_back({"host", r});
  std::vector<Measured> out(static_cast<std::size_t>(world));
  run_ranks(world, [&](Transport& t) {
    out[static_cast<std::size_t>(t.world().rank())] = measure(config, plan, t, slots);
  });
  return out;
}

class EveryPlan : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Layouts, EveryPlan, testing::ValuesIn(cases()), [](const auto& test) {
  std::string name = test.param.name;
  for (auto& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

// Bytes of every group of every rank; every tag of the first rank of each pp rank, and none holds more.
TEST_P(EveryPlan, IsWhatARunDoes) {
  const auto config = config_of(GetParam());
  const int world = GetParam().mesh.world(), per_stage = world / GetParam().mesh.pp;
  const auto plan = make_plan(config, world);
  const auto measured = measure(config, plan);
  ASSERT_EQ(plan.ranks.size(), static_cast<std::size_t>(GetParam().mesh.pp));
  for (int rank = 0; rank < world; ++rank) {
    const auto& m = measured[static_cast<std::size_t>(rank)];
    EXPECT_EQ(m.sent, m.predicted) << "rank " << rank;
    const auto& planned = plan.ranks[static_cast<std::size_t>(rank / per_stage)].memory;
    for (std::size_t t = 0; t < kTags; ++t) {
      if (rank % per_stage == 0)
        EXPECT_EQ(planned.peak[t], m.memory.peak[t]) << name_of(static_cast<Tag>(t)) << " of rank " << rank;
      else
        EXPECT_GE(planned.peak[t], m.memory.peak[t]) << name_of(static_cast<Tag>(t)) << " of rank " << rank;
    }
    if (rank % per_stage == 0) {
      EXPECT_EQ(planned.peak_total, m.memory.peak_total) << "rank " << rank;
    }
  }
}

// The formulas of parallel/fsdp/unit.h, where sizes divide: N elements of compute boxes, n storage ranks.
TEST(Memory, FollowsTheClosedForms) {
  for (const int stage : {1, 2, 3})
    for (const auto dtype : {DType::f32, DType::bf16}) {
      auto config = config_of({.name = "", .mesh = {.shard = 4, .tp = 2}});
      auto& m = config.model;
      m.hidden = 32, m.heads = 4, m.kv_heads = 2, m.head_dim = 8, m.ffn = 64, m.vocab = 256,
      m.position = Position::none;
      config.parallel.zero = stage, config.train.precision = dtype;
      const auto plan = make_plan(config, 8);
      const auto& memory = plan.ranks[0].memory;
      const auto at = [&](Tag tag) { return memory.peak[static_cast<std::size_t>(tag)]; };
      const std::int64_t n = plan.ranks[0].parameters, w = size_of(dtype),
                         padding = 8 * 64 * 9;  // of groups, elements
      const std::int64_t optimizer =
          8 * (static_cast<std::int64_t>(parameter_list(m).size()) + StepControl::kCount);
      EXPECT_EQ(at(Tag::moments), 2 * n * 4 / 4 + optimizer);
      EXPECT_EQ(at(Tag::master), dtype == DType::bf16 ? n * 4 / 4 : 0);
      const auto expect_whole = [&](Tag tag, std::int64_t size) {
        EXPECT_GE(at(tag), n * size) << name_of(tag);
        EXPECT_LE(at(tag), (n + padding) * size) << name_of(tag);
      };
      if (stage < 3) expect_whole(Tag::weights, w);
      if (stage == 1) expect_whole(Tag::gradients, 4);
      if (stage == 3) {
        EXPECT_LT(at(Tag::weights), n * w * 3 / 4);
      }
    }
}

// Peaks of many micro-batches are those of a dry run that takes them all.
TEST(Memory, ManyMicroBatchesAreExtrapolated) {
  for (const auto kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_v}) {
    const int chunks = kind == ScheduleKind::interleaved || kind == ScheduleKind::zb_v ? 2 : 1;
    auto config = config_of({.name = "", .mesh = {.pp = 2}, .change = [&](Config& c) {
                               pipeline(c, kind, chunks);
                               c.train.micro_batch = 1, c.train.global_batch = 5301, c.data.sequence = 4;
                             }});
    const auto plan = make_plan(config, 2);
    const auto whole = dry_run(engine_options(config, 2), dry_step(config, plan.mesh), 1).memory;
    EXPECT_EQ(plan.ranks[1].memory.peak, whole.peak) << kind;
    EXPECT_EQ(plan.ranks[1].memory.peak_total, whole.peak_total) << kind;
  }
}

double gemm_and_attention_flops(const Config& config) {
  OpProfiler profiler;
  auto options = engine_options(config, 1);
  options.wrap_backend = [&](std::unique_ptr<Backend> inner) { return profiler.around(std::move(inner)); };
  run_ranks(1, [&](Transport& transport) {
    Engine engine(options, transport, {{"host", 0}});
    engine.initialize({});
    profiler.start();
    engine.accumulate(std::vector{dry_step(config, {}).batch}, 1);
  });
  double flops = 0;
  for (const auto& [name, op] : profiler.stop())
    if (name.starts_with("gemm") || name.starts_with("attention_forward") ||
        name.starts_with("attention_backward"))
      flops += op.flops;
  return flops;
}

// Costs of stages are the products and attention of a real micro-batch.
TEST(Costs, AreTheFlopsOfAMicroBatch) {
  for (const auto recompute : {RecomputePolicy::none, RecomputePolicy::full}) {
    auto config = config_of({.name = "", .mesh = {}});
    config.train.recompute = recompute;
    const auto batch = dry_step(config, {}).batch;
    const auto costs =
        stage_costs(config.model, plan_pipeline(config.model, 1, {}),
                    {.rows = batch.rows(), .visible_pairs = visible_pairs(batch), .recompute = recompute});
    const double sum = costs[0].forward + costs[0].input + costs[0].weight;
    EXPECT_NEAR(sum, gemm_and_attention_flops(config), 1e-3 * sum);
    if (recompute == RecomputePolicy::full) continue;
    EXPECT_NEAR(sum, model_flops_per_token(config.model, 12) * static_cast<double>(batch.rows()), 0.1 * sum);
  }
}

// Any world takes seconds: by stages and micro-batches, not by ranks.
TEST(Plan, TakesAHundredThousandRanks) {
  Config config;
  config.model = model_preset("llama-8b");
  config.data.sequence = 4096;
  config.train.precision = DType::bf16, config.train.global_batch = 25'000;
  config.parallel.tp = 8, config.parallel.pp = 25, config.parallel.zero = 2;
  config.parallel.schedule = ScheduleKind::zb_h1;
  const auto start = std::clock();
  const auto plan = make_plan(config, 100'000);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 5);
  EXPECT_EQ(plan.mesh.shard, 500);
  EXPECT_EQ(plan.ranks.size(), 25u);
  EXPECT_FALSE(to_text(plan, config).empty());
}

bool mentions(const std::vector<std::string>& sentences, const std::string& words) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](auto& s) { return s.find(words) != std::string::npos; });
}

TEST(Plan, WarnsWithNumbers) {
  const auto warnings = [](Case c, int node = 8) {
    return make_plan(config_of(c), c.mesh.world(), {.node = node}).warnings;
  };
  EXPECT_TRUE(
      warnings({.name = "", .mesh = {}, .change = [](auto& c) { c.train.global_batch = 8; }}).empty());
  EXPECT_TRUE(mentions(warnings({.name = "", .mesh = {.shard = 2, .tp = 4}}, 2),
                       "tp = 4 does not divide the 2 ranks"));
  EXPECT_TRUE(mentions(warnings({.name = "", .mesh = {.tp = 4}}), "tp = 4 is more than kv_heads = 2"));
  EXPECT_TRUE(mentions(warnings({.name = "", .mesh = {.cp = 4}}), "sequences of 12 tokens are padded to 16"));
  EXPECT_TRUE(mentions(warnings({.name = "", .mesh = {}}), "1 of 8 places for sequences"));
  EXPECT_TRUE(mentions(warnings({.name = "", .mesh = {.pp = 4}}), "% of the time for the pipeline"));
  EXPECT_TRUE(mentions(warnings({.name = "", .mesh = {.shard = 32}}), "fewer rows than shard x cp = 32"));
  EXPECT_TRUE(mentions(warnings({.name = "", .mesh = {.shard = 2}, .change = [](auto& c) { zero(c, 3); }}),
                       "times a step; reshard = step"));
  EXPECT_TRUE(mentions(warnings({.name = "",
                                 .mesh = {.pp = 2},
                                 .change =
                                     [](auto& c) {
                                       pipeline(c, ScheduleKind::interleaved, 2), c.train.global_batch = 3,
                                                                                  c.train.micro_batch = 1;
                                     }}),
                       "there are 3 and pp = 2"));
}

TEST(Plan, IsReadable) {
  const auto config = config_of({.name = "", .mesh = {.pp = 2, .shard = 2}, .change = [](auto& c) {
                                   c.train.global_batch = 8, c.train.micro_batch = 1;
                                 }});
  const auto text = to_text(make_plan(config, 4), config);
  for (const auto* words :
       {"layout       pp 2 x replicate 1 x shard 2 x cp 1 x tp 1 (ep 1) = 4 ranks; zero 1, 1f1b, f32, "
        "recompute none\n",
        "step         8 sequences of 12 tokens over 2 data ranks: 4 micro-batches of 1, 12 rows a rank\n",
        "model flops  ", "stage 0  rank 0  embedding, blocks 0-", "rank 0 holds 2 | F0", "bubble ",
        "memory of a rank at most", "moments ", "together ", "a rank sends in a step",
        "shard*cp: weights, gradients", "pp: stages"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n in:\n" << text;
}

}  // namespace
}  // namespace fivefold
