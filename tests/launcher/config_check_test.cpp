// Rules between sections, each with its numbers and the nearest valid value; what this version lacks is
// refused.
#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"
#include "launcher/config.h"
#include "launcher/option_table.h"
#include "launcher/supported.h"

namespace fivefold {
namespace {

Config tiny(const std::string& preset = "tiny") {
  Config config;
  config.model = model_preset(preset);
  return config;
}

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal(const std::function<void(Config&)>& change, int world,
                    const std::string& preset = "tiny") {
  auto config = tiny(preset);
  change(config);
  return refusal([&] { check(config, world); });
}

void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const auto& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
}

TEST(MeshShapeOf, AutoFillsOneOfTheTwo) {
  EXPECT_EQ(mesh_shape({}, 8).shard, 8);
  EXPECT_EQ(mesh_shape({.tp = 2, .cp = 2}, 8).shard, 2);
  const auto replicated = mesh_shape({.shard = 2}, 8);
  EXPECT_EQ(replicated.shard, 2);
  EXPECT_EQ(replicated.replicate, 4);
  EXPECT_EQ(mesh_shape({.replicate = 2}, 8).shard, 4);
  for (int world : {1, 2, 3, 4, 8}) EXPECT_EQ(mesh_shape({}, world).world(), world);
}

TEST(MeshShapeOf, DegreesThatDoNotMultiplyToTheWorldAreRefused) {
  expect_words(refusal([](auto& c) { c.parallel.tp = 2; }, 3), {"tp 2", "3 ranks"});
  expect_words(refusal(
                   [](auto& c) {
                     c.parallel.shard = 2;
                     c.parallel.replicate = 2;
                   },
                   8),
               {"shard 2", "8 ranks"});
  expect_words(refusal([](auto& c) { c.parallel.tp = 16; }, 8), {"8 ranks"});
}

TEST(Rules, AnyWorldTakesAnyBatch) {
  for (int world : {1, 2, 3, 4, 8})
    for (std::int64_t batch : {1, 5, 8})
      for (std::int64_t micro : {1, 3, 16})
        EXPECT_EQ(refusal(
                      [&](auto& c) {
                        c.train.global_batch = batch;
                        c.train.micro_batch = micro;
                      },
                      world),
                  "accepted");
}

TEST(Rules, TensorParallelFitsTheHeads) {
  EXPECT_EQ(refusal([](auto& c) { c.parallel.tp = 4; }, 4), "accepted");  // 4 heads, 2 kv heads
  expect_words(refusal([](auto& c) { c.parallel.tp = 8; }, 8),
               {"tp = 8", "heads = 4", "kv_heads = 2", "nearest tp is 4"});
  expect_words(refusal([](auto& c) { c.parallel.tp = 3; }, 3), {"tp = 3", "nearest tp is 2"});
}

// B37: options that contradict each other are refused, and no block is lost.
TEST(Rules, PipelineStages) {
  expect_words(refusal([](auto& c) { c.parallel.pp = 4; }, 4),
               {"4 x 1 = 4", "layers = 2", "the most stages is 2"});
  expect_words(refusal([](auto& c) { c.parallel.chunks = 2; }, 1), {"1f1b", "chunks = 1", "interleaved"});
  expect_words(refusal([](auto& c) { c.parallel.schedule = ScheduleKind::interleaved; }, 1),
               {"interleaved", "at least 2"});
  expect_words(refusal([](auto& c) { c.parallel.schedule = ScheduleKind::zb_v; }, 1), {"zb-v", "chunks = 2"});
  expect_words(refusal([](auto& c) { c.parallel.stage_layers = {1, 1}; }, 1), {"2 entries", "= 1 virtual"});
  expect_words(refusal([](auto& c) { c.parallel.stage_layers = {1}; }, 1),
               {"sum to model.layers = 2", "sums to 1"});
  expect_words(refusal(
                   [](auto& c) {
                     c.parallel.schedule = ScheduleKind::zb_h1;
                     c.train.recompute = RecomputePolicy::full;
                   },
                   1),
               {"zb-h1", "recompute = full"});
}

// B49: the numbers are in the sentence.
TEST(Rules, ExpertParallel) {
  expect_words(refusal([](auto& c) { c.parallel.ep = 2; }, 2), {"ep = 2", "experts = 0"});
  expect_words(refusal([](auto& c) { c.parallel.ep = 3; }, 3, "tiny-moe"),
               {"ep = 3", "experts = 8", "nearest ep is 2"});
  expect_words(refusal([](auto& c) { c.parallel.ep = 2; }, 3, "tiny-moe"), {"ep is 2", "= 3"});
  expect_words(refusal(
                   [](auto& c) {
                     c.model.aux_loss = 0.01;
                     c.model.aux_scope = AuxScope::batch;
                   },
                   2, "tiny-moe"),
               {"aux_scope = batch", "global_batch = 8", "1 x 2", "nearest micro_batch is 4"});
}

TEST(Rules, UlyssesNeedsHeads) {
  expect_words(refusal(
                   [](auto& c) {
                     c.parallel.cp_strategy = CpStrategy::ulysses;
                     c.parallel.cp = 3;
                   },
                   3),
               {"ulysses", "it is 4", "cp = 3", "nearest cp is 2"});
}

TEST(Rules, SequenceFitsTheContext) {
  EXPECT_EQ(sequence_length(tiny()), 128);
  expect_words(refusal([](auto& c) { c.data.sequence = 129; }, 1),
               {"129 and 128", "nearest sequence is 128"});
  EXPECT_EQ(refusal([](auto& c) { c.data.sequence = 128; }, 1), "accepted");
}

TEST(Rules, LearningRates) {
  expect_words(refusal([](auto& c) { c.optimizer.min_lr = 1; }, 1), {"min_lr", "1 and 0.0003"});
  expect_words(refusal([](auto& c) { c.optimizer.warmup_steps = 1001; }, 1),
               {"1001 and 1000", "nearest warmup_steps is 1000"});
  expect_words(refusal([](auto& c) { c.optimizer.beta2 = 1; }, 1), {"beta2", "it is 1"});
  expect_words(refusal(
                   [](auto& c) {
                     c.optimizer.decay = LrDecay::wsd;
                     c.optimizer.warmup_steps = 900;
                     c.optimizer.decay_steps = 200;
                   },
                   1),
               {"decay_steps = 200", "= 100", "nearest decay_steps is 100"});
}

TEST(Schedule, FillsTheDecay) {
  auto config = tiny();
  config.optimizer.warmup_steps = 100;
  EXPECT_EQ(lr_schedule(config).decay_steps, 900);
  config.optimizer.decay = LrDecay::wsd;
  EXPECT_EQ(lr_schedule(config).decay_steps, 100);
  config.optimizer.decay_steps = 50;
  EXPECT_EQ(lr_schedule(config).decay_steps, 50);
}

TEST(Rules, StorageFollowsThePrecision) {
  struct Rule {
    DType precision;
    std::vector<MasterStorage> masters;
    std::vector<DType> moments, gradients;
  };
  using M = MasterStorage;
  const std::vector<Rule> rules{
      {DType::f64, {M::f64}, {DType::f64}, {DType::f64}},
      {DType::f32, {M::f32}, {DType::f32, DType::bf16}, {DType::f32}},
      {DType::bf16, {M::f32, M::split, M::bf16}, {DType::f32, DType::bf16}, {DType::f32, DType::bf16}}};
  const auto accepted = [](const Config& config) { return refusal([&] { check(config, 1); }) == "accepted"; };
  const auto has = [](const auto& list, auto value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  for (const auto& rule : rules) {
    auto config = tiny();
    config.train.precision = rule.precision;
    EXPECT_TRUE(accepted(config));
    for (const auto master : {M::f32, M::split, M::bf16, M::f64}) {
      config.train.master = master;
      EXPECT_EQ(accepted(config), has(rule.masters, master)) << rule.precision << ' ' << name_of(master);
    }
    config.train.master = M::automatic;
    for (const auto dtype : {DType::f64, DType::f32, DType::bf16}) {
      config.train.moments = dtype, config.train.gradients = {};
      EXPECT_EQ(accepted(config), has(rule.moments, dtype)) << rule.precision << ' ' << dtype;
      config.train.moments = {}, config.train.gradients = dtype;
      EXPECT_EQ(accepted(config), has(rule.gradients, dtype)) << rule.precision << ' ' << dtype;
    }
  }
  auto config = tiny();
  config.train.master = M::split;
  expect_words(refusal([&] { check(config, 1); }), {"train.master = split", "precision = f32", "auto, f32"});
}

TEST(Rules, TrainingNeedsDataAndOneStart) {
  auto config = tiny();
  expect_words(refusal([&] { check_training(config); }), {"data.train", "fivefold data build"});
  config.data.train = "text.bin";
  EXPECT_EQ(refusal([&] { check_training(config); }), "accepted");
  config.run.init = "weights";
  EXPECT_EQ(refusal([&] { check_training(config); }), "accepted");
  config.run.resume = "runs/a/checkpoints/step_00000010";
  expect_words(refusal([&] { check_training(config); }), {"init = weights", "step_00000010"});
}

// B75: data whose ids have no row in the embedding are refused before training.
TEST(Rules, VocabularyCoversTheData) {
  EXPECT_EQ(refusal([] { check_vocab(tiny().model, 320, "a.bin"); }), "accepted");
  expect_words(refusal([] { check_vocab(tiny().model, 321, "a.bin"); }),
               {"'a.bin'", "320", "vocab = 320", "fits is 321"});
}

TEST(Supported, DefaultsAndDenseModelsAreFine) {
  EXPECT_EQ(refusal([] { check_supported(Config{}); }), "accepted");
  for (const auto* preset : {"tiny", "tiny-gpt2", "qwen2.5-0.5b", "qwen3-0.6b", "mistral-7b", "llama-8b"})
    EXPECT_EQ(refusal([&] { check_supported(tiny(preset)); }), "accepted") << preset;
}

TEST(Supported, MissingFeaturesAreNamedWithWhatWorks) {
  auto config = tiny();
  config.log.tensorboard = true;
  expect_words(refusal([&] { check_supported(config); }), {"log.tensorboard = true", "what works is false"});
  config = tiny("tiny-moe");
  expect_words(refusal([&] { check_supported(config); }), {"model.experts = 8", "what works is 0"});
}

}  // namespace
}  // namespace fivefold
