// Layouts of MPI processes that share one CUDA device, or one each where there are as many: what the
// transport stages through the host gives the bits of thread ranks, and the stored trajectories in f32.
#include <gtest/gtest.h>

#include "core/cuda.h"
#include "launcher/parity.h"
#include "parallel/comm/mpi_comm.h"
#include "tests/mpi/session.h"
#include "tests/support/trajectory.h"

namespace fivefold {
namespace {

using test::Layout;
using test::Problem;

Layout layout_of(MeshShape mesh, int zero = 1, ScheduleKind schedule = ScheduleKind::one_f_one_b) {
  Layout l{.mesh = mesh};
  l.stage.zero.stage = zero;
  l.pipeline = {.schedule = schedule, .chunks = 1, .stage_layers = {}};
  return l;
}

// For four processes.
std::vector<Layout> layouts() {
  return {layout_of({.shard = 4}, 3), layout_of({.tp = 4}), layout_of({.cp = 4}),
          layout_of({.pp = 2, .tp = 2}, 1, ScheduleKind::zb_h1), layout_of({.pp = 2, .shard = 2}, 2)};
}

class GpuMpiLayouts : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
    transport_ = make_mpi_transport(test::session());
    if (transport_->world().size() != 4) GTEST_SKIP() << "needs 4 MPI processes";
    for (int r = 0; r < 4; ++r) slots_.push_back({"host", r});
    device_ = {DeviceKind::cuda, transport_->world().rank() % cuda_device_count()};
  }

  std::unique_ptr<Transport> transport_;
  std::vector<HostSlot> slots_;
  Device device_;
};

TEST_F(GpuMpiLayouts, SameBitsAsThreads) {
  for (const auto dtype : {DType::f32, DType::bf16})
    for (const auto& layout : layouts()) {
      Problem problem;
      problem.model = test::small_llama();
      problem.model.layers = 4;
      problem.dtype = dtype;
      problem.device = device_;
      const auto over_mpi = test::train(*transport_, slots_, problem, layout);
      if (transport_->world().rank() == 0) {
        const auto over_threads = test::train(problem, layout);
        EXPECT_EQ(test::hash_of(over_mpi), test::hash_of(over_threads))
            << to_string(layout) << ", " << dtype << ": "
            << to_string(test::distance(over_mpi, over_threads, problem));
      }
      transport_->world().barrier();
    }
}

TEST_F(GpuMpiLayouts, StoredTrajectoriesInF32) {
  PosixFileSystem fs;
  const auto reference = read_reference(fs, std::filesystem::path(FIVEFOLD_FIXTURES) / "hf/llama");
  for (const auto& layout : layouts()) {
    Engine engine({.model = reference.model,
                   .mesh = layout.mesh,
                   .dtype = DType::f32,
                   .device = device_,
                   .stage = layout.stage,
                   .pipeline = layout.pipeline,
                   .optimizer = reference.optimizer},
                  *transport_, slots_);
    for (const auto& c : compare_with_reference(engine, reference, layout.micro_batch))
      EXPECT_TRUE(c.ok()) << to_string(layout) << "\n" << to_text({c});
  }
}

}  // namespace
}  // namespace fivefold
