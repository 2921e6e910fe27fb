// The words of fivefold plan and of --explain-grads.
#include "launcher/plan_command.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "launcher/parity_command.h"
#include "launcher/text_table.h"

namespace fivefold {
namespace {

using Words = std::vector<std::string>;

std::string printed(int (*command)(std::span<const std::string>), const Words& words) {
  testing::internal::CaptureStdout();
  const int code = command(words);
  auto text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0) << text;
  return text;
}

std::string refused(const Words& words) {
  try {
    plan_command(words);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

TEST(PlanCommand, TheWorldIsGivenOrTheProductOfTheDegrees) {
  EXPECT_TRUE(
      has(printed(plan_command, {"--model.preset=tiny", "--parallel.tp=2", "--parallel.pp=2"}), "= 4 ranks"));
  EXPECT_TRUE(has(printed(plan_command, {"--model.preset=tiny", "--parallel.tp=2", "--world", "6"}),
                  "shard 3 x cp 1 x tp 2 (ep 1) = 6 ranks"));
  EXPECT_TRUE(has(printed(plan_command, {"--model.preset=tiny", "--ranks=2"}), "= 2 ranks"));
  EXPECT_TRUE(has(printed(plan_command, {"--model.preset=tiny"}), "= 1 rank;"));
}

// Devices and transports are those of other machines.
TEST(PlanCommand, NeedsNoDevice) {
  EXPECT_TRUE(has(printed(plan_command, {"--model.preset=tiny", "--train.device=cuda",
                                         "--parallel.transport=nccl", "--world=2"}),
                  "= 2 ranks"));
}

TEST(PlanCommand, RefusesWhatNoRunWouldTake) {
  EXPECT_TRUE(has(refused({}), "plan needs a configuration"));
  EXPECT_TRUE(has(refused({"--model.preset=tiny", "--ranks=2", "--world=3"}),
                  "--world and --ranks say different numbers"));
  EXPECT_TRUE(has(refused({"--model.preset=tiny", "--world=1000001"}), "up to 1000000 ranks"));
  EXPECT_TRUE(has(refused({"--model.preset=tiny", "--world=0"}), "at least 1"));
  EXPECT_TRUE(has(refused({"--model.preset=tiny", "--wrld=2"}), "--world"));
  EXPECT_TRUE(
      has(refused({"--model.preset=tiny", "--world=4", "--parallel.tp=3"}), "nearest mesh that fits"));
  EXPECT_TRUE(has(refused({"--model.preset=tiny", "--parallel.tp=1000000", "--parallel.cp=1000000"}),
                  "up to 1000000 ranks"));
}

TEST(ExplainOption, PrintsBeforeAnythingRuns) {
  const auto plan = printed(plan_command, {"--model.preset=tiny", "--parallel.tp=2", "--explain-grads"});
  EXPECT_EQ(plan.find("gradients on pp 1"), 0u) << plan;
  EXPECT_LT(plan.find("blocks.1.mlp.down.weight  [64, 128]  d1 tp"), plan.find("layout  "));
  const auto parity = printed(parity_command, {"--model.preset=tiny", "--data.sequence=8", "--ranks=2",
                                               "--steps=1", "--explain-grads"});
  EXPECT_EQ(parity.find("gradients on pp 1"), 0u) << parity;
  EXPECT_TRUE(has(parity, "against one rank: 1 step of 8 sequences of 8 random tokens, f32")) << parity;
  EXPECT_TRUE(has(parity, "the layout computes what one rank computes")) << parity;
}

TEST(TextTable, AlignsAndScales) {
  EXPECT_EQ(text_table({{"a", "10"}, {"long", "9"}}, 1), "a     10\nlong   9\n");
  EXPECT_EQ(text_table({{"a", "10"}, {"long", "9"}}), "a     10\nlong  9\n");
  EXPECT_EQ(text_of_bytes(1023), "1023 B");
  EXPECT_EQ(text_of_bytes(3 << 20), "3.00 MiB");
  EXPECT_EQ(text_of_count(999), "999");
  EXPECT_EQ(text_of_count(1.5e12, "FLOP"), "1.50 TFLOP");
  EXPECT_EQ(text_of_count(12, "FLOP"), "12 FLOP");
  EXPECT_EQ(text_of_share(0.1234), "12.3 %");
}

}  // namespace
}  // namespace fivefold
