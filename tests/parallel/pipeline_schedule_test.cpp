// Schedules as values: text both ways, stage maps, and every rule that validate() holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "parallel/pipeline/passes.h"

namespace fivefold {
namespace {

TEST(PipelineAction, TextBothWays) {
  for (const auto act :
       {Act::forward, Act::backward, Act::backward_input, Act::backward_weight, Act::send_activation,
        Act::receive_activation, Act::send_gradient, Act::receive_gradient, Act::unshard, Act::reshard,
        Act::exchange_tied, Act::reduce_grads})
    for (const int m : {kWholeStep, 0, 17}) {
      const Action action{act, 12, m};
      EXPECT_EQ(action_from_text(to_text(action)), action) << to_text(action);
    }
  EXPECT_EQ(to_text(Action{Act::forward, 2, 0}), "2F0");
  EXPECT_EQ(to_text(Action{Act::reduce_grads, 2, kWholeStep}), "2R");
  for (const auto* text : {"", "F0", "2", "2Q0", "2F-1", "2F0x", "2f0", "x2F0", "-1F0"})
    EXPECT_THROW(action_from_text(text), Error) << text;
}

TEST(PipelineSchedule, TextBothWays) {
  for (const auto& spec :
       {ScheduleSpec{.kind = ScheduleKind::zb_v, .ranks = 3, .chunks = 2, .micro_batches = 12},
        ScheduleSpec{.kind = ScheduleKind::interleaved, .ranks = 2, .chunks = 3, .micro_batches = 3},
        ScheduleSpec{}}) {
    const auto schedule = training_schedule(spec);
    EXPECT_EQ(schedule_from_text(to_text(schedule)), schedule);
  }
  EXPECT_EQ(to_text(make_schedule(ScheduleKind::one_f_one_b, 2, 1, 2)),
            "micro-batches 2, stages on ranks 0 1\n"
            "rank 0: 0F0 0F1 0B0 0B1\n"
            "rank 1: 1F0 1B0 1F1 1B1\n");
  for (const auto* text :
       {"", "micro-batches 2", "micro-batches x, stages on ranks 0\nrank 0: 0F0",
        "micro-batches 1, stages on ranks 0\nrank 1: 0F0", "micro-batches 1, stages on ranks 0\nrank 0: F"})
    EXPECT_THROW(schedule_from_text(text), Error) << text;
}

TEST(PipelineStageMap, Shapes) {
  EXPECT_EQ(loop_map(3, 1).rank_of, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(loop_map(2, 3).rank_of, (std::vector<int>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(vee_map(3).rank_of, (std::vector<int>{0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(loop_map(2, 3).stages_of(1), (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(vee_map(3).stages_of(0), (std::vector<int>{0, 5}));
}

std::string complaint(const Schedule& schedule) {
  try {
    validate(schedule);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// What validate() says of a schedule after `change` of the list of one rank.
std::string after(Schedule schedule, int rank, const std::function<void(ActionList&)>& change) {
  EXPECT_EQ(complaint(schedule), "");
  change(schedule.lists[rank]);
  return complaint(schedule);
}

ActionList::iterator at(ActionList& list, const char* text) {
  return std::find(list.begin(), list.end(), action_from_text(text));
}
auto swapping(const char* a, const char* b) {
  return [=](ActionList& list) { std::iter_swap(at(list, a), at(list, b)); };
}
auto erasing(const char* text) {
  return [=](ActionList& list) { list.erase(at(list, text)); };
}
auto replacing(const char* text, const char* with) {
  return [=](ActionList& list) { *at(list, text) = action_from_text(with); };
}

#define EXPECT_SAYS(complaint, words)                                     \
  do {                                                                    \
    const std::string said = (complaint);                                 \
    EXPECT_NE(said.find(words), said.npos) << "it says '" << said << "'"; \
  } while (false)

TEST(PipelineValidate, OrderAndCounts) {
  const auto gpipe = make_schedule(ScheduleKind::gpipe, 2, 1, 3),
             zb = make_schedule(ScheduleKind::zb_h1, 2, 1, 4);
  EXPECT_SAYS(after(gpipe, 0, swapping("0F0", "0F2")), "rank 0 at 0F2: micro-batches ascend");
  EXPECT_SAYS(after(gpipe, 0, swapping("0B1", "0B2")), "rank 0 at 0B2: micro-batches ascend");
  EXPECT_SAYS(after(zb, 1, swapping("1W0", "1W1")), "rank 1 at 1W1: micro-batches ascend");
  EXPECT_SAYS(after(gpipe, 1, swapping("1F0", "1B0")), "before its forward");
  EXPECT_SAYS(after(zb, 0, swapping("0I0", "0W0")), "before its input half");
  EXPECT_SAYS(after(gpipe, 1, erasing("1F2")), "rank 1 at 1B2: before its forward");
  EXPECT_SAYS(after(gpipe, 1, erasing("1B2")), "weight gradients of stage 1");
  EXPECT_SAYS(after(zb, 1, erasing("1W3")), "weight gradients of stage 1");
  EXPECT_SAYS(after(zb, 1,
                    [](auto& list) {
                      std::erase_if(list,
                                    [](auto& a) { return a.micro_batch == 3 && a.act != Act::forward; });
                    }),
              "weight gradients of stage 1");
  EXPECT_SAYS(after(gpipe, 0, replacing("0B2", "0B3")), "micro-batches ascend");
  EXPECT_SAYS(after(gpipe, 0,
                    [](auto& list) {
                      list.push_back({Act::forward, 0, 3});
                    }),
              "there are 3 micro-batches");
  EXPECT_SAYS(after(gpipe, 0,
                    [](auto& list) {
                      list.push_back({Act::backward_input, 0, 0});
                    }),
              "whole or in halves");
}

TEST(PipelineValidate, Places) {
  const auto gpipe = make_schedule(ScheduleKind::gpipe, 2, 1, 3);
  EXPECT_SAYS(after(gpipe, 0, replacing("0F0", "1F0")), "rank 0 at 1F0: the stage lives elsewhere");
  EXPECT_SAYS(after(gpipe, 0, replacing("0F0", "2F0")), "there are 2 stages");
  auto homeless = gpipe;
  homeless.map.rank_of = {0, 0};
  EXPECT_SAYS(complaint(homeless), "rank 1 has no stage");
  auto short_of_lists = gpipe;
  short_of_lists.lists.pop_back();
  EXPECT_SAYS(complaint(short_of_lists), "one list a rank");
}

TEST(PipelineValidate, Reductions) {
  const auto each =
      training_schedule({.ranks = 2, .micro_batches = 3, .reductions = {.each_micro_batch = true}});
  const auto once = training_schedule({.ranks = 2, .micro_batches = 3});
  EXPECT_SAYS(after(once, 0, swapping("0R", "0B2")), "gradients are still to come");
  EXPECT_SAYS(after(each, 0, swapping("0R0", "0R1")), "reductions ascend");
  EXPECT_SAYS(after(each, 0, swapping("0R1", "0B2")), "its gradients are the last made");
}

TEST(PipelineValidate, Transfers) {
  const auto schedule = training_schedule({.ranks = 2, .micro_batches = 3});
  EXPECT_SAYS(after(schedule, 0, erasing("0SA2")), "activations that stage 0 sends");
  EXPECT_SAYS(after(schedule, 1, erasing("1RA2")), "activations that stage 1 receives");
  EXPECT_SAYS(after(schedule, 1, erasing("1SG2")), "gradients that stage 1 sends");
  EXPECT_SAYS(after(schedule, 0, erasing("0RG2")), "gradients that stage 0 receives");
  EXPECT_SAYS(after(schedule, 0, swapping("0SA0", "0SA1")), "rank 0 at 0SA1: micro-batches ascend");
  EXPECT_SAYS(after(schedule, 0,
                    [](auto& list) {
                      list.push_back({Act::send_gradient, 0, 0});
                    }),
              "before stage 0");
  EXPECT_SAYS(after(schedule, 1,
                    [](auto& list) {
                      list.push_back({Act::receive_gradient, 1, 0});
                    }),
              "after stage 1");
  // Two stages of one rank hand on without a transfer.
  const auto vee =
      training_schedule({.kind = ScheduleKind::zb_v, .ranks = 2, .chunks = 2, .micro_batches = 3});
  EXPECT_SAYS(after(vee, 1,
                    [](auto& list) {
                      list.push_back({Act::send_activation, 1, 0});
                    }),
              "activations that stage 1 sends");
}

}  // namespace
}  // namespace fivefold
