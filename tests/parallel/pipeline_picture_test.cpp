// Golden pictures and lists: tests/golden/pipeline/. A failing case prints the text to compare.
#include <gtest/gtest.h>

#include <fstream>

#include "parallel/pipeline/passes.h"
#include "parallel/pipeline/picture.h"

namespace fivefold {
namespace {

void expect_golden(const std::string& name, const std::string& text) {
  std::ifstream in(std::string(FIVEFOLD_FIXTURES) + "/../golden/pipeline/" + name + ".txt");
  const std::string stored((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(text, stored) << name << " is now:\n" << text;
}

std::string picture_of(ScheduleKind kind, int ranks, int chunks, int micro_batches) {
  const auto schedule = make_schedule(kind, ranks, chunks, micro_batches);
  return picture(schedule, simulate(schedule));
}

TEST(PipelinePicture, Golden) {
  expect_golden("gpipe", picture_of(ScheduleKind::gpipe, 4, 1, 8));
  expect_golden("1f1b", picture_of(ScheduleKind::one_f_one_b, 4, 1, 8));
  expect_golden("interleaved", picture_of(ScheduleKind::interleaved, 4, 2, 8));
  expect_golden("interleaved_5_micro_batches", picture_of(ScheduleKind::interleaved, 4, 2, 5));
  expect_golden("zb-h1", picture_of(ScheduleKind::zb_h1, 4, 1, 8));
  expect_golden("zb-v", picture_of(ScheduleKind::zb_v, 4, 2, 8));
  expect_golden("zb-v_3_micro_batches", picture_of(ScheduleKind::zb_v, 4, 2, 3));
}

TEST(PipelinePicture, GoldenWithHead) {
  const auto schedule = make_schedule(ScheduleKind::one_f_one_b, 3, 1, 4);
  const PipelineCosts costs{.stages = {{1, 1, 1}, {1, 1, 1}, {2, 1.5, 1}}, .transfer = 0.25};
  const std::vector<StageMemory> memory{{100, 0}, {100, 0}, {150.5, 0}};
  expect_golden("1f1b_with_head", picture(schedule, simulate(schedule, costs, memory), {.tick = 0.5}));
}

TEST(PipelinePicture, GoldenLists) {
  expect_golden("1f1b_lists",
                to_text(training_schedule({.ranks = 3, .micro_batches = 4, .reductions = {.tied = true}})));
  expect_golden(
      "zb-v_lists",
      to_text(training_schedule({.kind = ScheduleKind::zb_v, .ranks = 3, .chunks = 2, .micro_batches = 4})));
}

TEST(PipelinePicture, CutAndScaled) {
  const auto schedule = make_schedule(ScheduleKind::gpipe, 1, 1, 4);
  EXPECT_EQ(picture(schedule, simulate(schedule), {.tick = 1, .max_columns = 3}),
            "1 rank x 1 chunk, 4 micro-batches: makespan 12, bubble 0 %\n"
            "rank 0 holds 4 | F0 F1 F2 ...\n");
  EXPECT_EQ(picture(schedule, simulate(schedule), {.tick = 2}),
            "1 rank x 1 chunk, 4 micro-batches: makespan 12, bubble 0 %\n"
            "rank 0 holds 4 | F0 F2 B0 B1 B2 B3\n");
  const PipelineCosts costs{.stages = {{1e-3, 1e-3, 2e-3}}};
  EXPECT_EQ(picture(schedule, simulate(schedule, costs), {.tick = 0, .max_columns = 9}),
            "1 rank x 1 chunk, 4 micro-batches: makespan 0.016, bubble 0 %\n"
            "rank 0 holds 4 | F0 F1 F2 F3 B0------ B1---- ...\n");
}

TEST(PipelinePicture, ProgressShowsTheSurroundings) {
  const auto list = make_schedule(ScheduleKind::gpipe, 1, 1, 10).lists[0];
  EXPECT_EQ(progress_text(list, 0), "[0F0] 0F1 0F2 0F3 0F4 0F5 0F6 (13 more)");
  EXPECT_EQ(progress_text(list, 10),
            "(4 before) 0F4 0F5 0F6 0F7 0F8 0F9 [0B0] 0B1 0B2 0B3 0B4 0B5 0B6 (3 more)");
  EXPECT_EQ(progress_text(list, 19), "(13 before) 0B3 0B4 0B5 0B6 0B7 0B8 [0B9]");
  EXPECT_EQ(progress_text(list, 20), "(14 before) 0B4 0B5 0B6 0B7 0B8 0B9 [end]");
  EXPECT_EQ(progress_text(ActionList{}, 0), "[end]");
}

// Peaks of the two kinds, and of both together.
TEST(PipelineSimulate, KnowsTwoKindsOfMemory) {
  const auto zb = make_schedule(ScheduleKind::zb_h1, 4, 1, 8);
  const auto peak = simulate(zb).peaks;
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(peak[rank].before_input, 4 - rank);
    EXPECT_EQ(peak[rank].before_weight, rank + 1);
    EXPECT_EQ(peak[rank].together, 4);
  }
  const std::vector<StageMemory> memory(4, {10, 3});
  EXPECT_EQ(simulate(zb, {}, memory).peaks[3].together, 1 * 10 + 3 * 3);
  EXPECT_EQ(simulate(zb, {}, memory).largest_peak().together, 40);
  const auto whole = simulate(make_schedule(ScheduleKind::one_f_one_b, 4, 1, 8)).peaks;
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(whole[rank].before_weight, 0);
}

TEST(PipelineSimulate, CostsAndTransfers) {
  const auto schedule = make_schedule(ScheduleKind::gpipe, 2, 1, 1);
  const PipelineCosts costs{.stages = {{1, 2, 4}, {8, 16, 32}}, .transfer = 0.5};
  const auto run = simulate(schedule, costs);
  EXPECT_EQ(run.makespan, 1 + 0.5 + 8 + 48 + 0.5 + 6);
  EXPECT_EQ(run.busy, (std::vector<double>{7, 56}));
  EXPECT_DOUBLE_EQ(run.bubble(), 1 - 63.0 / 128);
  EXPECT_EQ(run.timeline[1][1].begin, 9.5);
  PipelineCosts wrong{.stages = {{1, 1, 1}}};
  EXPECT_THROW(simulate(schedule, wrong), Error);
  wrong.stages = {{1, 1, 1}, {1, 0, 1}};
  EXPECT_THROW(simulate(schedule, wrong), Error);
}

TEST(PipelineSimulate, ListsThatCannotFinishAreShown) {
  auto schedule = make_schedule(ScheduleKind::gpipe, 2, 1, 2);
  std::swap(schedule.lists[0][0], schedule.lists[0][2]);
  try {
    simulate(schedule);
    FAIL();
  } catch (const Error& error) {
    const std::string said = error.what();
    EXPECT_NE(said.find("the schedule cannot finish:\nrank 0: [0B0] 0F1 0F0 0B1\nrank 1: [1F0] 1F1 1B0 1B1"),
              said.npos)
        << said;
  }
}

}  // namespace
}  // namespace fivefold
