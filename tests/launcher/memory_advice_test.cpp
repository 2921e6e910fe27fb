// What a run says that does not fit, and that its advice is true.
#include "launcher/memory_advice.h"

#include <gtest/gtest.h>

#include "launcher/plan.h"
#include "launcher/text_table.h"
#include "tests/support/train_run.h"

namespace fivefold {
namespace {

Config bf16_config() {
  Config config;
  config.model = model_preset("tiny");
  config.train.precision = DType::bf16;
  config.train.global_batch = config.train.micro_batch = 4;
  return config;
}

std::int64_t peak(const Config& config, int world) {
  std::int64_t most = 0;
  for (const auto& rank : make_plan(config, world).ranks) most = std::max(most, rank.memory.peak_total);
  return most;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(MemoryAdvice, NamesThreeChangesWithWhatEachSaves) {
  const auto config = bf16_config();
  const auto now = peak(config, 1);
  const auto advice = memory_advice(config, 1, 0);
  EXPECT_TRUE(has(advice, "needs " + text_of_bytes(now))) << advice;
  struct Try {
    std::string text;
    std::function<void(Config&)> change;
  };
  int found = 0;
  for (const auto& [text, change] : std::vector<Try>{
           {"train.recompute=full", [](Config& c) { c.train.recompute = RecomputePolicy::full; }},
           {"train.micro_batch=1", [](Config& c) { c.train.micro_batch = 1; }},
           {"train.master=split", [](Config& c) { c.train.master = MasterStorage::split; }},
           {"train.moments=bf16", [](Config& c) { c.train.moments = DType::bf16; }},
           {"train.gradients=bf16", [](Config& c) { c.train.gradients = DType::bf16; }},
           {"train.loss_rows=128", [](Config& c) { c.train.loss_rows = 128; }}}) {
    if (!has(advice, text)) continue;
    auto changed = config;
    change(changed);
    const auto then = peak(changed, 1);
    EXPECT_TRUE(has(advice, text_of_bytes(now - then) + " less")) << text << '\n' << advice;
    EXPECT_TRUE(has(advice, "): " + text_of_bytes(then))) << text << '\n' << advice;
    ++found;
  }
  EXPECT_EQ(found, 3) << advice;
  EXPECT_TRUE(has(advice, "on 2 ranks with parallel.shard=2")) << advice;
}

// With room for it the mildest change of a key is named, and that it fits.
TEST(MemoryAdvice, SaysWhatFits) {
  auto config = bf16_config();
  config.train.micro_batch = 2;
  const auto room = peak(config, 1) * 103 / 100;
  config.train.micro_batch = 4;
  const auto advice = memory_advice(config, 1, room);
  EXPECT_TRUE(has(advice, "train.micro_batch=2")) << advice;
  EXPECT_TRUE(has(advice, "fits")) << advice;
  EXPECT_FALSE(has(memory_advice(config, 1, 1000), "fits"));
  EXPECT_TRUE(has(memory_advice(config, 1, 1000), "together: "));
}

// A run under a limit ends with 1, the report and the advice; what the advice says does run.
TEST(MemoryAdvice, ComesWithARunThatDoesNotFit) {
  const test::TrainFolder folder;
  const auto run = [&](const std::string& name, const std::vector<std::string>& more) {
    auto words = folder.arguments(name, more);
    words.insert(words.begin(), "train");
    return test::run_program(folder, words);
  };
  const std::vector<std::string> batch{"--train.global_batch=8", "--train.micro_batch=8"};
  auto limited = batch;
  limited.push_back("--train.memory_limit=100KiB");
  const auto refused = run("limited", limited);
  EXPECT_EQ(refused.code, 1) << refused.output;
  for (const auto* part : {"out of memory: ", "the limit is 0.1 MiB", "asked for: a tensor [",
                           "in use by this rank:", "a training step of this configuration needs ", " less (",
                           "train.micro_batch="})
    EXPECT_TRUE(has(refused.output, part)) << part << '\n' << refused.output;
  EXPECT_EQ(run("free", batch).code, 0);
}

}  // namespace
}  // namespace fivefold
