// The layouts that devices and transports are tried on are legal, different, and compute what one rank
// computes.
#include "tests/support/layout_table.h"

#include <gtest/gtest.h>

#include <set>

namespace fivefold {
namespace {

TEST(LayoutTable, EveryLayoutIsOneRanks) {
  const auto layouts = test::layouts_of_eight();
  EXPECT_GE(layouts.size(), 12u);
  test::Problem problem;
  problem.model = test::small_llama();
  problem.model.layers = 4;
  const auto alone = test::train(problem, {});
  std::set<std::string> names;
  for (const auto& layout : layouts) {
    names.insert(to_string(layout));
    EXPECT_EQ(layout.mesh.world(), 8);
    const auto d = test::distance(test::train(problem, layout), alone, problem);
    EXPECT_LE(d.largest(), 1e-10) << to_string(layout) << ": " << to_string(d);
  }
  EXPECT_EQ(names.size(), layouts.size());
}

}  // namespace
}  // namespace fivefold
