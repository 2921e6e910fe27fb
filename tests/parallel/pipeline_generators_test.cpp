// Every schedule keeps the rules for every shape, and takes the time and memory of its closed form.
#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/pipeline/generators.h"
#include "parallel/pipeline/simulate.h"

namespace fivefold {
namespace {

struct ShapeOf {
  ScheduleKind kind;
  int ranks, chunks, micro_batches;
};
std::ostream& operator<<(std::ostream& out, const ShapeOf& s) {
  return out << s.kind << " p=" << s.ranks << " v=" << s.chunks << " m=" << s.micro_batches;
}

struct Figures {
  double makespan, held, held_1f1b;  // held in chunks
};

Figures figures(const ShapeOf& s) {
  const auto run = simulate(make_schedule(s.kind, s.ranks, s.chunks, s.micro_batches));
  return {run.makespan, run.largest_peak().together, double(s.chunks) * std::min(s.ranks, s.micro_batches)};
}

// Ticks of F = I = W = 1 that a bubble of p - 1 forwards, or thirds of micro-batches, adds to v * m
// micro-batches.
double ticks_1f1b(const ShapeOf& s) { return 3.0 * (s.chunks * s.micro_batches + s.ranks - 1); }
double ticks_zero_bubble(const ShapeOf& s) { return 3.0 * s.chunks * s.micro_batches + s.ranks - 1; }

std::vector<ShapeOf> shapes(ScheduleKind kind, int chunks, int most_ranks = 8, int most_micro_batches = 16) {
  std::vector<ShapeOf> out;
  for (int p = 1; p <= most_ranks; ++p)
    for (int m = 1; m <= most_micro_batches; ++m) out.push_back({kind, p, chunks, m});
  return out;
}

TEST(PipelineGenerators, GpipeAnd1f1bTakeTheirFormExactly) {
  for (const auto kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b})
    for (const auto& s : shapes(kind, 1)) {
      const auto f = figures(s);
      EXPECT_EQ(f.makespan, ticks_1f1b(s)) << s;
      EXPECT_EQ(f.held, kind == ScheduleKind::gpipe ? s.micro_batches : f.held_1f1b) << s;
    }
}

// Also where micro-batches are no multiple of the ranks.
TEST(PipelineGenerators, InterleavedTakesItsFormFromAsManyMicroBatchesAsRanks) {
  for (const int v : {1, 2, 3, 4})
    for (const auto& s : shapes(ScheduleKind::interleaved, v, 8, 40)) {
      const auto f = figures(s);
      if (s.micro_batches >= s.ranks) {
        EXPECT_EQ(f.makespan, ticks_1f1b(s)) << s;
      }
      if (v == 1 || s.micro_batches < s.ranks) continue;
      const int group = (s.micro_batches + s.micro_batches / s.ranks - 1) / (s.micro_batches / s.ranks);
      EXPECT_LE(f.held, 2 * (s.ranks - 1) + (v - 1) * group + 1) << s;
    }
}

// With fewer micro-batches than ranks the way of one through all stages and back is what takes the time.
TEST(PipelineGenerators, InterleavedOfOneMicroBatchIsItsWay) {
  for (const int v : {2, 3, 4})
    for (int p = 1; p <= 8; ++p) EXPECT_EQ(figures({ScheduleKind::interleaved, p, v, 1}).makespan, 3 * v * p);
}

// The bar is 2 ticks beside the form; the pattern has 0.
TEST(PipelineGenerators, ZbH1TakesItsForm) {
  for (const auto& s : shapes(ScheduleKind::zb_h1, 1, 16, 40)) {
    const auto f = figures(s);
    if (s.micro_batches >= s.ranks) {
      EXPECT_EQ(f.makespan, ticks_zero_bubble(s)) << s;
    }
    EXPECT_LE(f.makespan, ticks_1f1b(s)) << s;
    EXPECT_LE(f.held, f.held_1f1b) << s;
  }
}

TEST(PipelineGenerators, ZbVTakesItsFormInTheMemoryOf1f1b) {
  for (const auto& s : shapes(ScheduleKind::zb_v, 2, 16, 40)) {
    const auto f = figures(s);
    if (2 * s.micro_batches >= 3 * s.ranks) {
      EXPECT_EQ(f.makespan, ticks_zero_bubble(s)) << s;
    }
    // 1F1B over the same two chunks a rank, in ticks of a chunk.
    EXPECT_LE(f.makespan, 6 * (s.micro_batches + s.ranks - 1)) << s;
    EXPECT_LE(f.held, f.held_1f1b) << s;
  }
}

// B34: fewer micro-batches than stages.
TEST(PipelineGenerators, FewMicroBatchesWork) {
  for (const auto& [kind, v] : {std::pair{ScheduleKind::gpipe, 1},
                                {ScheduleKind::one_f_one_b, 1},
                                {ScheduleKind::interleaved, 2},
                                {ScheduleKind::zb_h1, 1},
                                {ScheduleKind::zb_v, 2}})
    for (const int m : {1, 2, 3}) {
      const auto schedule = make_schedule(kind, 4, v, m);
      EXPECT_NO_THROW(validate(schedule)) << kind << ' ' << m;
      EXPECT_LE(simulate(schedule).makespan, 3 * v * (m + 3)) << kind << ' ' << m;
    }
}

TEST(PipelineGenerators, ChunksMustFit) {
  const auto message = [](ScheduleKind kind, int chunks) -> std::string {
    try {
      make_schedule(kind, 2, chunks, 4);
    } catch (const UserError& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(message(ScheduleKind::zb_v, 1),
            "schedule zb-v has 2 virtual stages a pipeline rank, but chunks = 1; the nearest chunks is 2");
  EXPECT_EQ(message(ScheduleKind::gpipe, 3),
            "schedule gpipe has 1 virtual stage a pipeline rank, but chunks = 3; the nearest chunks is 1");
  EXPECT_EQ(message(ScheduleKind::interleaved, 3), "");
}

// A dearer last stage (the head) and slow transfers change the time, not that it ends.
TEST(PipelineGenerators, FinishUnderAnyCosts) {
  for (const auto& [kind, v] : {std::pair{ScheduleKind::gpipe, 1},
                                {ScheduleKind::one_f_one_b, 1},
                                {ScheduleKind::interleaved, 3},
                                {ScheduleKind::zb_h1, 1},
                                {ScheduleKind::zb_v, 2}})
    for (const int m : {1, 3, 5, 9}) {
      PipelineCosts costs{.stages = std::vector<StageCosts>(4 * v, {1, 1.25, 0.75}), .transfer = 0.1};
      costs.stages.back() = {2.5, 2, 1};
      const auto run = simulate(make_schedule(kind, 4, v, m), costs);
      EXPECT_GT(run.makespan, m * (3.0 * v + 2.5)) << kind << ' ' << m;
      EXPECT_GT(run.bubble(), 0);
      EXPECT_LT(run.bubble(), 1);
    }
}

}  // namespace
}  // namespace fivefold
