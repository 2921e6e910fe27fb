// The plan of ring attention: by hand, and by replaying the plans of all ranks together.
#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "parallel/context/ring_plan.h"
#include "tests/parallel/context_testing.h"

namespace fivefold {
namespace {

using Plans = std::vector<std::vector<RingStep>>;

std::string text(const std::vector<RingStep>& plan) {
  std::string out;
  for (const auto& s : plan)
    out += str(s.owner, ": keys of step ", s.source, " to ", s.keys_to, ", from ", s.keys_from,
               "; gradients to ", s.gradients_to, ", from ", s.gradients_from,
               s.gradients_home ? " home\n" : "\n");
  return out;
}

TEST(RingPlan, OnceAroundFourRanks) {
  EXPECT_EQ(text(ring_plan(4, 1, 3)),
            "1: keys of step -1 to -1, from -1; gradients to -1, from -1\n"
            "0: keys of step 0 to 2, from 0; gradients to 2, from 0\n"
            "3: keys of step 1 to 2, from 0; gradients to 2, from 0\n"
            "2: keys of step 2 to 2, from 0; gradients to 2, from 0 home\n");
}

TEST(RingPlan, TwoNeighboursOnEitherSideOfEight) {
  EXPECT_EQ(text(ring_plan(8, 0, 2)),
            "0: keys of step -1 to -1, from -1; gradients to -1, from -1\n"
            "7: keys of step 0 to 1, from 7; gradients to 1, from 7\n"
            "6: keys of step 1 to 1, from 7; gradients to 6, from 2 home\n"
            "1: keys of step 0 to 7, from 1; gradients to 7, from 1\n"
            "2: keys of step 3 to 7, from 1; gradients to 2, from 6 home\n");
}

Plans plans_of(int cp, std::int64_t reach) {
  Plans plans;
  for (int rank = 0; rank < cp; ++rank) plans.push_back(ring_plan(cp, rank, reach));
  return plans;
}

// Whose keys a rank holds after each step when the transfers of the plans are carried out: those of the
// planned owner.
void check_keys(const Plans& plans) {
  const auto cp = plans.size(), steps = plans[0].size();
  std::vector<std::vector<int>> held(steps, std::vector<int>(cp));
  for (std::size_t s = 0; s < steps; ++s)
    for (std::size_t rank = 0; rank < cp; ++rank) {
      const auto& step = plans[rank][s];
      if (s == 0) {
        held[s][rank] = static_cast<int>(rank);
      } else {
        const auto from = static_cast<std::size_t>(step.keys_from);
        ASSERT_EQ(plans[from][s].keys_to, static_cast<int>(rank));
        ASSERT_TRUE(step.source == 0 || step.source == static_cast<int>(s) - 1);
        held[s][rank] = held[static_cast<std::size_t>(plans[from][s].source)][from];
      }
      ASSERT_EQ(held[s][rank], step.owner);
    }
}

// The ranks whose gradients reach each rank: all that meet its keys, once each.
void check_gradients(const Plans& plans) {
  const auto cp = plans.size(), steps = plans[0].size();
  using Sums = std::vector<std::multiset<int>>;
  Sums home(cp), arrived(cp);
  for (std::size_t s = 1; s < steps; ++s) {
    Sums sums(cp), next(cp);
    for (std::size_t rank = 0; rank < cp; ++rank) {
      sums[rank] = std::move(arrived[rank]);
      sums[rank].insert(static_cast<int>(rank));
    }
    for (std::size_t rank = 0; rank < cp; ++rank) {
      const auto& step = plans[rank][s];
      const auto from = static_cast<std::size_t>(step.gradients_from);
      ASSERT_EQ(plans[from][s].gradients_to, static_cast<int>(rank));
      ASSERT_EQ(plans[from][s].owner,
                step.gradients_home ? static_cast<int>(rank) : plans[rank][s + 1].owner);
      if (step.gradients_home)
        home[rank].insert(sums[from].begin(), sums[from].end());
      else
        next[rank] = sums[from];
    }
    arrived = std::move(next);
  }
  Sums wanted(cp);
  for (std::size_t rank = 0; rank < cp; ++rank)
    for (std::size_t s = 1; s < steps; ++s)
      wanted[static_cast<std::size_t>(plans[rank][s].owner)].insert(static_cast<int>(rank));
  EXPECT_EQ(home, wanted);
}

TEST(RingPlan, EveryPlanBringsKeysAndTakesGradientsHome) {
  for (int cp = 1; cp <= 9; ++cp)
    for (std::int64_t reach = 0; reach < cp; ++reach) {
      SCOPED_TRACE(str("cp ", cp, " reach ", reach));
      const auto plans = plans_of(cp, reach);
      ASSERT_EQ(plans[0].size(), static_cast<std::size_t>(std::min<std::int64_t>(2 * reach + 1, cp)));
      check_keys(plans);
      check_gradients(plans);
      for (std::size_t rank = 0; rank < plans.size(); ++rank) {
        ASSERT_EQ(plans[rank].size(), plans[0].size());
        std::set<int> owners;
        for (const auto& step : plans[rank]) owners.insert(step.owner);
        EXPECT_EQ(owners.size(), plans[rank].size()) << "rank " << rank << " meets keys twice";
      }
    }
}

// Brute force over all pairs that see each other: their ranks meet.
TEST(RingPlan, AWindowLeavesNoVisiblePairOut) {
  bool shorter = false;
  for (const int cp : {2, 3, 4, 5, 8})
    for (const std::int64_t sequence : {std::int64_t{2} * cp, std::int64_t{6} * cp, std::int64_t{10} * cp})
      for (std::int64_t window = 1; window <= sequence; ++window) {
        std::vector<int> owner(static_cast<std::size_t>(sequence));
        std::vector<std::set<int>> meets(static_cast<std::size_t>(cp));
        for (int rank = 0; rank < cp; ++rank) {
          for (const auto row : test::context_deal(sequence, cp, rank, CpStrategy::ring))
            owner[static_cast<std::size_t>(row)] = rank;
          const auto plan = ring_plan(cp, rank, window_reach(window, sequence / (2 * cp), cp));
          for (const auto& step : plan) meets[static_cast<std::size_t>(rank)].insert(step.owner);
          shorter |= plan.size() < static_cast<std::size_t>(cp);
        }
        for (std::int64_t i = 0; i < sequence; ++i)
          for (std::int64_t j = std::max<std::int64_t>(0, i - window + 1); j <= i; ++j)
            ASSERT_TRUE(meets[static_cast<std::size_t>(owner[static_cast<std::size_t>(i)])].count(
                owner[static_cast<std::size_t>(j)]))
                << "cp " << cp << " sequence " << sequence << " window " << window << " pair " << i << ' '
                << j;
      }
  EXPECT_TRUE(shorter);
}

TEST(RingPlan, WithoutAWindowOrAKnownLengthAllRanksAreReached) {
  EXPECT_EQ(window_reach(0, 16, 8), 7);
  EXPECT_EQ(window_reach(5, 0, 8), 7);
  EXPECT_EQ(window_reach(1, 16, 8), 0);
  EXPECT_EQ(window_reach(17, 16, 8), 1);
  EXPECT_EQ(window_reach(18, 16, 8), 2);
  EXPECT_EQ(window_reach(1000, 16, 8), 7);
  EXPECT_THROW(ring_plan(4, 4, 1), Error);
}

}  // namespace
}  // namespace fivefold
