// Where passes put what they add.
#include <gtest/gtest.h>

#include "parallel/pipeline/passes.h"

namespace fivefold {
namespace {

std::string list_of(const Schedule& schedule, int rank) {
  std::string text;
  for (const auto& action : schedule.lists[rank]) text += (text.empty() ? "" : " ") + to_text(action);
  return text;
}

TEST(PipelinePasses, TransfersEnterWhereTheirProductIsMade) {
  const auto schedule = add_transfers(make_schedule(ScheduleKind::gpipe, 3, 1, 2));
  EXPECT_EQ(list_of(schedule, 0), "0F0 0SA0 0F1 0SA1 0RG0 0B0 0RG1 0B1");
  EXPECT_EQ(list_of(schedule, 1), "1RA0 1F0 1RA1 1SA0 1F1 1SA1 1RG0 1B0 1SG0 1RG1 1B1 1SG1");
  EXPECT_EQ(list_of(schedule, 2), "2RA0 2F0 2RA1 2F1 2B0 2SG0 2B1 2SG1");
}

// A slow last stage gets its inputs ahead of time.
TEST(PipelinePasses, TransfersFollowTheCosts) {
  PipelineCosts costs{.stages = {{1, 1, 1}, {4, 1, 1}}};
  const auto schedule = add_transfers(make_schedule(ScheduleKind::gpipe, 2, 1, 3), costs);
  EXPECT_EQ(list_of(schedule, 1), "1RA0 1F0 1RA1 1RA2 1F1 1F2 1B0 1SG0 1B1 1SG1 1B2 1SG2");
}

TEST(PipelinePasses, StagesOfOneRankHandOnWithoutTransfer) {
  EXPECT_EQ(list_of(add_transfers(make_schedule(ScheduleKind::interleaved, 1, 2, 1)), 0), "0F0 1F0 1B0 0B0");
  const auto vee = add_transfers(make_schedule(ScheduleKind::zb_v, 2, 2, 1));
  EXPECT_EQ(list_of(vee, 1), "1RA0 1F0 2F0 2SA0 2RG0 2I0 2W0 1I0 1SG0 1W0");
}

TEST(PipelinePasses, AgainIsRefused) {
  const auto schedule = add_transfers(make_schedule(ScheduleKind::gpipe, 2, 1, 2));
  EXPECT_THROW(add_transfers(schedule), Error);
}

TEST(PipelinePasses, ReductionsOnceAStepOrForEachMicroBatch) {
  const auto zb = make_schedule(ScheduleKind::zb_h1, 2, 1, 3);
  EXPECT_EQ(list_of(add_reductions(zb, {}), 1), "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2 1R");
  EXPECT_EQ(list_of(add_reductions(zb, {.each_micro_batch = true}), 1),
            "1F0 1I0 1F1 1I1 1W0 1R0 1F2 1I2 1W1 1R1 1W2 1R2");
  const auto loop = make_schedule(ScheduleKind::interleaved, 1, 2, 2);
  EXPECT_EQ(list_of(add_reductions(loop, {}), 0), "0F0 1F0 1B0 0F1 0B0 1F1 1B1 1R 0B1 0R");
}

// Others wait for the gradient, so it leaves before the reduction.
TEST(PipelinePasses, ReductionsLetTheGradientGoFirst) {
  const auto line = add_transfers(make_schedule(ScheduleKind::one_f_one_b, 2, 1, 2));
  EXPECT_EQ(list_of(add_reductions(line, {}), 1), "1RA0 1F0 1RA1 1B0 1SG0 1F1 1B1 1SG1 1R");
  EXPECT_EQ(list_of(add_reductions(line, {.each_micro_batch = true}), 1),
            "1RA0 1F0 1RA1 1B0 1SG0 1R0 1F1 1B1 1SG1 1R1");
}

TEST(PipelinePasses, TiedStagesExchangeBeforeTheyReduce) {
  const auto line = make_schedule(ScheduleKind::one_f_one_b, 3, 1, 1);
  const auto once = add_reductions(line, {.tied = true});
  EXPECT_EQ(list_of(once, 0), "0F0 0B0 0T 0R");
  EXPECT_EQ(list_of(once, 1), "1F0 1B0 1R");
  EXPECT_EQ(list_of(once, 2), "2F0 2B0 2T 2R");
  EXPECT_EQ(list_of(add_reductions(line, {.each_micro_batch = true, .tied = true}), 2), "2F0 2B0 2R0 2T 2R");
  const auto vee = add_reductions(make_schedule(ScheduleKind::zb_v, 1, 2, 1), {.tied = true});
  EXPECT_EQ(list_of(vee, 0), "0F0 1F0 1I0 1W0 0I0 0W0 0T 1T 0R 1R");
  // One stage is both.
  EXPECT_EQ(list_of(add_reductions(make_schedule(ScheduleKind::gpipe, 1, 1, 1), {.tied = true}), 0),
            "0F0 0B0 0R");
}

TEST(PipelinePasses, UnshardsAroundTheUseOfWeights) {
  const auto zb = make_schedule(ScheduleKind::zb_h1, 2, 1, 2);
  EXPECT_EQ(list_of(add_unshards(zb, false), 1), "1U 1F0 1I0 1F1 1I1 1D 1W0 1W1");
  EXPECT_EQ(list_of(add_unshards(zb, true), 1), "1U0 1F0 1D0 1U0 1I0 1D0 1U1 1F1 1D1 1U1 1I1 1D1 1W0 1W1");
  EXPECT_EQ(list_of(add_unshards(forwards_of(zb), false), 1), "1U 1F0 1F1 1D");
  for (const bool each : {false, true}) EXPECT_NO_THROW(validate(add_unshards(zb, each)));
}

TEST(PipelinePasses, EvaluationRunsForwardsAlone) {
  const auto schedule =
      evaluation_schedule({.kind = ScheduleKind::zb_v, .ranks = 2, .chunks = 2, .micro_batches = 2});
  EXPECT_EQ(list_of(schedule, 0), "0F0 0SA0 0F1 0SA1 3RA0 3F0 3RA1 3F1");
  EXPECT_EQ(list_of(schedule, 1), "1RA0 1F0 1RA1 2F0 2SA0 1F1 2F1 2SA1");
}

}  // namespace
}  // namespace fivefold
