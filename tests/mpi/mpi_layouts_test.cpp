// Layouts over MPI processes: the same bits as thread ranks, and one rank's numbers to 1e-10.
#include <gtest/gtest.h>

#include "parallel/comm/mpi_comm.h"
#include "parallel/comm/thread_world.h"
#include "tests/mpi/session.h"
#include "tests/support/trajectory.h"

namespace fivefold {
namespace {

using test::Layout;
using test::Problem;

Layout layout_of(MeshShape mesh, int zero = 1, ScheduleKind schedule = ScheduleKind::one_f_one_b,
                 int chunks = 1) {
  Layout l{.mesh = mesh};
  l.stage.zero.stage = zero;
  l.pipeline = {.schedule = schedule, .chunks = chunks, .stage_layers = {}};
  return l;
}

// For four processes.
std::vector<Layout> layouts() {
  using enum ScheduleKind;
  return {layout_of({.shard = 4}, 3),
          layout_of({.tp = 4}),
          layout_of({.cp = 4}),
          layout_of({.pp = 4}, 1, gpipe),
          layout_of({.replicate = 2, .shard = 2}, 2),
          layout_of({.pp = 2, .tp = 2}, 1, zb_h1),
          layout_of({.pp = 2, .shard = 2}, 3, zb_v, 2),
          layout_of({.pp = 2, .cp = 2}, 1, interleaved, 2),
          layout_of({.shard = 2, .tp = 2}, 3)};
}

Problem problem_of(bool tied) {
  Problem p;
  p.model = tied ? test::small_gpt2() : test::small_llama();
  p.model.layers = 4;
  return p;
}

TEST(MpiLayouts, SameBitsAsThreadsAndOneRanksNumbers) {
  const auto transport = make_mpi_transport(test::session());
  auto& world = transport->world();
  if (world.size() != 4) GTEST_SKIP() << "needs 4 MPI processes";
  std::vector<HostSlot> slots;
  for (int r = 0; r < 4; ++r) slots.push_back({"host", r});
  ASSERT_GE(layouts().size(), 8u);
  std::map<bool, test::Trajectory> alone;
  for (const bool tied : {false, true}) alone[tied] = test::train(problem_of(tied), {});
  bool tied = false;  // every other layout
  for (const auto& layout : layouts()) {
    const auto problem = problem_of(tied);
    const auto over_mpi = test::train(*transport, slots, problem, layout);
    const auto d = test::distance(over_mpi, alone[tied], problem);
    EXPECT_LE(d.largest(), 1e-10) << to_string(layout) << ": " << to_string(d);
    if (world.rank() == 0) {
      EXPECT_EQ(test::hash_of(over_mpi), test::hash_of(test::train(problem, layout))) << to_string(layout);
    }
    world.barrier();
    tied = !tied;
  }
}

}  // namespace
}  // namespace fivefold
