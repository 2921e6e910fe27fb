// No schedule deadlocks on in-order rendezvous queues, and one that would is caught.
#include <gtest/gtest.h>

#include <random>

#include "parallel/pipeline/passes.h"
#include "parallel/pipeline/replay.h"

namespace fivefold {
namespace {

std::vector<int> chunks_of(ScheduleKind kind) {
  if (kind == ScheduleKind::interleaved) return {1, 2, 3, 4};
  return {kind == ScheduleKind::zb_v ? 2 : 1};
}

// B34: every p <= 8, m <= 16, v <= 4, with the reductions of either kind and tied parameters, for training
// and evaluation. Both functions validate and replay.
TEST(PipelineReplay, EveryShapeOfEveryScheduleFinishes) {
  int shapes = 0;
  for (std::size_t k = 0; k < enum_names<ScheduleKind>().size(); ++k)
    for (const int v : chunks_of(static_cast<ScheduleKind>(k)))
      for (int p = 1; p <= 8; ++p)
        for (int m = 1; m <= 16; ++m, ++shapes) {
          ScheduleSpec spec{
              .kind = static_cast<ScheduleKind>(k), .ranks = p, .chunks = v, .micro_batches = m};
          spec.reductions = {.each_micro_batch = m % 2 == 0, .tied = true};
          EXPECT_NO_THROW(training_schedule(spec)) << spec.kind << ' ' << p << ' ' << v << ' ' << m;
          EXPECT_NO_THROW(evaluation_schedule(spec)) << spec.kind << ' ' << p << ' ' << v << ' ' << m;
        }
  EXPECT_EQ(shapes, 8 * 8 * 16);
}

// The order of transfers comes from a simulation; lists made under other costs than those that come true
// finish too.
TEST(PipelineReplay, FinishesUnderUnevenCosts) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> cost(0.2, 3);
  for (const auto& [kind, v] : {std::pair{ScheduleKind::one_f_one_b, 1},
                                {ScheduleKind::interleaved, 3},
                                {ScheduleKind::zb_h1, 1},
                                {ScheduleKind::zb_v, 2}})
    for (int trial = 0; trial < 20; ++trial) {
      ScheduleSpec spec{.kind = kind, .ranks = 5, .chunks = v, .micro_batches = 1 + trial};
      for (int s = 0; s < 5 * v; ++s) spec.costs.stages.push_back({cost(random), cost(random), cost(random)});
      spec.costs.transfer = cost(random);
      EXPECT_NO_THROW(training_schedule(spec)) << kind << ' ' << trial;
    }
}

std::string stuck(const Schedule& schedule) {
  try {
    replay(schedule);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// Moves `action` to stand right after `other`.
void put_after(ActionList& list, const Action& action, const Action& other) {
  ASSERT_EQ(std::erase(list, action), 1u);
  const auto at = std::find(list.begin(), list.end(), other);
  ASSERT_NE(at, list.end());
  list.insert(at + 1, action);
}

TEST(PipelineReplay, TamperedOrderIsCaughtAndShown) {
  auto schedule = training_schedule({.ranks = 2, .micro_batches = 3});
  put_after(schedule.lists[1], {Act::receive_activation, 1, 1}, {Act::send_gradient, 1, 0});
  EXPECT_EQ(stuck(schedule),
            "the schedule deadlocks:\n"
            "rank 0: 0F0 0SA0 0F1 [0SA1] 0RG0 0B0 0F2 0SA2 0RG1 0B1 (3 more)\n"
            "rank 1: 1RA0 1F0 1B0 [1SG0] 1RA1 1F1 1B1 1RA2 1SG1 1F2 (3 more)\n"
            "rank 0 at 0SA1 waits for 1RA1 of rank 1\n"
            "rank 1 at 1SG0 waits for 0RG0 of rank 0");
}

TEST(PipelineReplay, ComputeWithoutItsInputIsCaught) {
  auto schedule = add_transfers(make_schedule(ScheduleKind::gpipe, 2, 1, 1));
  std::erase(schedule.lists[1], Action{Act::receive_activation, 1, 0});
  std::erase(schedule.lists[0], Action{Act::send_activation, 0, 0});
  const auto text = stuck(schedule);
  EXPECT_NE(text.find("rank 1: [1F0] 1B0 1SG0"), text.npos) << text;
  EXPECT_NE(text.find("rank 1 at 1F0 waits for the output of stage 0, micro-batch 0"), text.npos) << text;
}

// One end of the exchange of tied gradients stands before the last transfers.
TEST(PipelineReplay, EarlyExchangeIsCaught) {
  auto schedule = training_schedule({.ranks = 3, .micro_batches = 4, .reductions = {.tied = true}});
  auto& list = schedule.lists[2];
  const auto exchange = std::find(list.begin(), list.end(), Action{Act::exchange_tied, 2, kWholeStep});
  ASSERT_NE(exchange, list.end());
  std::rotate(list.begin(), exchange, exchange + 1);
  const auto text = stuck(schedule);
  EXPECT_NE(text.find("rank 2 at 2T waits for 0T of rank 0"), text.npos) << text;
}

// Any swap of two transfers of one rank that changes their order with one peer deadlocks or is found invalid.
TEST(PipelineReplay, EverySwapWithOnePeerIsCaught) {
  const auto good =
      training_schedule({.kind = ScheduleKind::zb_v, .ranks = 3, .chunks = 2, .micro_batches = 4});
  const auto peer = [&](const Action& a) {
    return is_send(a.act) ? taker_of(carried_by(a), good.map) : maker_of(carried_by(a), good.map);
  };
  int swaps = 0;
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t i = 0; i < good.lists[r].size(); ++i)
      for (std::size_t j = i + 1; j < good.lists[r].size(); ++j) {
        const auto &a = good.lists[r][i], &b = good.lists[r][j];
        if (!is_transfer(a.act) || !is_transfer(b.act) || peer(a) != peer(b)) continue;
        auto bad = good;
        std::swap(bad.lists[r][i], bad.lists[r][j]);
        EXPECT_NE(stuck(bad), "") << to_text(a) << " and " << to_text(b);
        ++swaps;
      }
  EXPECT_GT(swaps, 300);
}

}  // namespace
}  // namespace fivefold
