// Benchmarks: what `bench step` feeds the model, what it reports, and the command's mistakes.
#include <gtest/gtest.h>

#include "launcher/bench_command.h"
#include "launcher/bench_step.h"

namespace fivefold {
namespace {

Config small_config() {
  Config c;
  c.model.layers = 2, c.model.hidden = 16, c.model.heads = 2, c.model.ffn = 24, c.model.vocab = 19,
  c.model.context = 8;
  c.model = complete(c.model);
  c.train.global_batch = 6, c.train.micro_batch = 2, c.train.precision = DType::f64;
  return c;
}

BenchStepReport bench_on(int ranks, const Config& config, const BenchStepOptions& options) {
  BenchStepReport out;
  run_world({.ranks = ranks, .transport = TransportName::thread}, [&](RankContext& context) {
    auto report = bench_step(config, context, options);
    if (context.world_rank() == 0) out = std::move(report);
    return 0;
  });
  return out;
}

TEST(BenchStep, RandomTokensAreAFunctionOfSampleAndPlace) {
  const auto all = random_batch(10, 4, 3, 5, 7);
  EXPECT_EQ(all.rows(), 20);
  EXPECT_EQ(all.valid_targets, 15);
  const auto one = random_batch(11, 1, 1, 5, 7);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(one.tokens[i], all.tokens[5 + i]);
    EXPECT_EQ(one.targets[i], all.targets[5 + i]);
    EXPECT_LT(one.tokens[i], 7);
    if (i > 0) {
      EXPECT_EQ(one.tokens[i], one.targets[i - 1]) << "a target is the next token";
    }
    EXPECT_EQ(all.first_visible[5 + i], 5);
    EXPECT_EQ(all.q_index[5 + i], static_cast<std::int32_t>(5 + i));
    EXPECT_EQ(all.targets[15 + i], -1);
    EXPECT_GT(all.first_visible[15 + i], all.q_index[15 + i]) << "padding sees nothing";
  }
}

TEST(BenchStep, EveryNumberOfRanksTrainsTheSameSteps) {
  const auto one = bench_on(1, small_config(), {.steps = 3, .warmup = 1});
  EXPECT_EQ(one.seconds.size(), 3u);
  EXPECT_LE(one.seconds.front(), one.median());
  EXPECT_EQ(one.tokens, 48);
  EXPECT_GT(one.memory.peak_total, 0);
  EXPECT_TRUE(one.profile.empty());
  for (const int ranks : {2, 4})
    EXPECT_NEAR(bench_on(ranks, small_config(), {.steps = 3, .warmup = 1}).loss, one.loss, 1e-10);
}

TEST(BenchStep, TheProfileCountsItsOwnStepsOnly) {
  auto config = small_config();
  config.train.micro_batch = 6;
  const auto report = bench_on(1, config, {.steps = 3, .warmup = 2, .profile = true});
  EXPECT_EQ(report.profile.at("norm_forward").calls, 3 * 5);
  EXPECT_EQ(report.profile.at("gemm 48 x 48 x 16 nt").calls, 3 * 4) << "qkv, and gate with up, of two blocks";
  double inside = 0, whole = 0;
  for (const auto& [name, time] : report.profile) inside += time.seconds;
  for (const double s : report.profiled_seconds) whole += s;
  EXPECT_GT(inside, 0);
  EXPECT_LT(inside, whole);
  EXPECT_NE(to_text(report).find("outside ops"), std::string::npos);
  EXPECT_NE(to_text(report).find("tokens/s"), std::string::npos);
}

TEST(OpProfile, LongestFirstAndSharesOfTheStep) {
  const OpProfile profile{{"short", {.calls = 4, .seconds = 0.1, .flops = 1e9, .bytes = 2e9}},
                          {"long", {.calls = 2, .seconds = 0.3, .flops = 3e9, .bytes = 3e9}}};
  const auto text = to_text(profile, 2, 0.25);
  EXPECT_LT(text.find("long"), text.find("short"));
  const auto line = text.substr(text.find("short"), text.find('\n', text.find("short")) - text.find("short"));
  EXPECT_NE(line.find(" 2.0     50.000    20.0       10.0       20.0"), std::string::npos) << line;
  EXPECT_NE(text.find("50.000    20.0        0.0        0.0", text.find("outside")), std::string::npos)
      << text;
}

std::string mistake(const std::vector<std::string>& args) {
  try {
    bench_command(args);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(BenchCommand, MistakesAreNamed) {
  EXPECT_NE(mistake({}).find("ops, step or comm"), std::string::npos);
  EXPECT_NE(mistake({"steps"}).find("nearest is 'step'"), std::string::npos);
  EXPECT_NE(mistake({"step"}).find("--config FILE"), std::string::npos);
  EXPECT_NE(mistake({"step", "--model.preset=gpt2-124m", "--steps", "0"}).find("at least 1"),
            std::string::npos);
  EXPECT_NE(mistake({"step", "--profil", "--model.preset=gpt2-124m"}).find("--profile"), std::string::npos);
  EXPECT_NE(mistake({"ops", "--dtype", "f16"}).find("cannot be 'f16'"), std::string::npos);
  EXPECT_NE(mistake({"ops", "gemm", "norm"}).find("not also 'norm'"), std::string::npos);
}

}  // namespace
}  // namespace fivefold
