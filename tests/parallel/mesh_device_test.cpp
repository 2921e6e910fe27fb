// A mesh over living ranks: positions from gathered slots, communicators over axes, sharing, warnings.
#include <gtest/gtest.h>

#include <map>

#include "parallel/comm/launch_environment.h"
#include "parallel/comm/thread_world.h"
#include "parallel/mesh/host_slots.h"

namespace fivefold {
namespace {

std::vector<HostSlot> one_host(int ranks) {
  std::vector<HostSlot> slots;
  for (int r = 0; r < ranks; ++r) slots.push_back({"here", r});
  return slots;
}

const std::vector<DeviceMesh::Wanted> kGroups{
    {{Axis::tp}, "activations"},
    {{Axis::shard, Axis::cp}, "weights"},
    {{Axis::edp}, "weights"},
    {{Axis::replicate}, "weights"},
    {{Axis::ep}, "activations"},
    {{Axis::tp}, "weights"},
    {{Axis::replicate, Axis::shard, Axis::cp}, "loss"},
};

// Group ranks are the coordinates along the axes, and members share all other coordinates.
TEST(DeviceMeshTest, CommunicatorsFollowTheAxes) {
  const MeshShape shape{2, 1, 2, 1, 2, 4};
  run_ranks(8, [&](Transport& transport) {
    const DeviceMesh mesh(shape, transport, one_host(8), kGroups);
    FF_CHECK_EQ(mesh.position(), transport.world().rank());
    FF_CHECK(mesh.warnings().empty());
    for (const auto& wanted : kGroups) {
      auto& comm = mesh.over(wanted.axes, wanted.purpose);
      FF_CHECK_EQ(comm.size(), mesh.layout().size(wanted.axes));
      FF_CHECK_EQ(comm.rank(), mesh.layout().coordinate(mesh.position(), wanted.axes));
      const auto said = comm.gather_bytes(str(mesh.position()));
      const auto members = mesh.layout().group(mesh.position(), wanted.axes);
      for (std::size_t i = 0; i < said.size(); ++i) FF_CHECK_EQ(said[i], str(members[i]));
    }
    EXPECT_THROW(mesh.over({Axis::pp}, "activations"), Error);
    EXPECT_EQ(mesh.over({Axis::tp}, "activations").name(), "tp/activations");
  });
}

TEST(DeviceMeshTest, EqualMembersShareUnlessThePurposeDiffers) {
  run_ranks(4, [](Transport& transport) {
    const std::vector<DeviceMesh::Wanted> wanted{{{Axis::shard}, "weights"},
                                                 {{Axis::replicate, Axis::shard}, "weights"},
                                                 {{Axis::shard}, "activations"},
                                                 {{Axis::tp}, "weights"}};
    const DeviceMesh mesh({1, 1, 4, 1, 1, 1}, transport, one_host(4), wanted);
    EXPECT_EQ(&mesh.over({Axis::shard}, "weights"), &mesh.over({Axis::replicate, Axis::shard}, "weights"));
    EXPECT_NE(&mesh.over({Axis::shard}, "weights"), &mesh.over({Axis::shard}, "activations"));
    EXPECT_EQ(mesh.over({Axis::tp}, "weights").size(), 1);
  });
}

// B83: two hosts numbered in turn. Positions put each host's ranks together, so every tp group stays within
// one host.
TEST(DeviceMeshTest, InterleavedHostsStillKeepTpTogether) {
  const std::vector<HostSlot> slots{{"B", 0}, {"A", 0}, {"B", 1}, {"A", 1}};
  run_ranks(4, [&](Transport& transport) {
    const DeviceMesh mesh({1, 1, 2, 1, 2, 1}, transport, slots, {{{Axis::tp}, "activations"}});
    EXPECT_TRUE(mesh.warnings().empty());
    const auto& tp = mesh.over({Axis::tp}, "activations");
    for (const int member : tp.members())
      EXPECT_EQ(slots[static_cast<std::size_t>(member)].host,
                slots[static_cast<std::size_t>(transport.world().rank())].host);
    EXPECT_EQ(mesh.world_rank_at(mesh.position()), transport.world().rank());
  });
}

TEST(DeviceMeshTest, WarnsWhenTpCrossesHosts) {
  const std::vector<HostSlot> slots{{"A", 0}, {"A", 1}, {"A", 2}, {"B", 0}};
  run_ranks(4, [&](Transport& transport) {
    const DeviceMesh mesh({1, 1, 2, 1, 2, 1}, transport, slots, {});
    ASSERT_EQ(mesh.warnings().size(), 1u);
    EXPECT_NE(mesh.warnings()[0].find("1 of 2 tp groups cross hosts, the first at positions 2 to 3"),
              std::string::npos)
        << mesh.warnings()[0];
  });
}

TEST(DeviceMeshTest, AMeshThatDoesNotFitIsAUserError) {
  EXPECT_THROW(run_ranks(3,
                         [](Transport& t) {
                           const DeviceMesh mesh({1, 1, 2, 1, 2, 1}, t, one_host(3), {});
                         }),
               UserError);
}

// Two models of one process have meshes of their own.
TEST(DeviceMeshTest, SeveralInOneWorld) {
  run_ranks(2, [](Transport& transport) {
    const DeviceMesh one({1, 1, 2, 1, 1, 1}, transport, one_host(2), {{{Axis::shard}, "weights"}});
    const DeviceMesh two({1, 1, 1, 1, 2, 1}, transport, one_host(2),
                         {{{Axis::tp}, "activations"}, {{Axis::shard}, "weights"}});
    one.over({Axis::shard}, "weights").barrier();
    two.over({Axis::tp}, "activations").barrier();
  });
}

std::vector<int> local_ranks(const std::vector<std::pair<std::string, std::optional<int>>>& said) {
  std::vector<int> found(said.size());
  run_ranks(static_cast<int>(said.size()), [&](Transport& t) {
    const auto& [host, local] = said[static_cast<std::size_t>(t.world().rank())];
    const auto slots = gather_host_slots(t.world(), host, local);
    if (t.world().rank() > 0) return;
    for (std::size_t r = 0; r < slots.size(); ++r) {
      EXPECT_EQ(slots[r].host, said[r].first);
      found[r] = slots[r].local_rank;
    }
  });
  return found;
}

// B81: local ranks come from the launcher; where they are absent or doubled on a host, its ranks are numbered
// in order.
TEST(HostSlots, TrustTheLauncherWhereItMakesSense) {
  EXPECT_EQ(local_ranks({{"a", 1}, {"a", 0}, {"b", 0}}), (std::vector<int>{1, 0, 0}));
  EXPECT_EQ(local_ranks({{"a", std::nullopt}, {"b", 5}, {"a", 0}}), (std::vector<int>{0, 5, 1}));
  EXPECT_EQ(local_ranks({{"a b", 0}, {"a b", 0}, {"c", 1}}), (std::vector<int>{0, 1, 1}));
}

LaunchEnvironment environment_of(const std::map<std::string, std::string>& variables) {
  return read_launch_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(LaunchEnvironmentTest, KnowsItsLauncher) {
  const auto alone = environment_of({{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}});  // a batch shell
  EXPECT_FALSE(alone.mpi);
  EXPECT_EQ(alone.launcher, "");
  EXPECT_FALSE(alone.world_size);
  const auto mpirun = environment_of({{"OMPI_COMM_WORLD_SIZE", "8"},
                                      {"OMPI_COMM_WORLD_RANK", "3"},
                                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                      {"SLURM_STEP_NUM_TASKS", "2"}});
  EXPECT_TRUE(mpirun.mpi);
  EXPECT_EQ(mpirun.launcher, "mpirun");
  EXPECT_EQ(mpirun.world_size, 8);
  EXPECT_EQ(mpirun.world_rank, 3);
  EXPECT_EQ(mpirun.local_rank, 1);
  const auto srun =
      environment_of({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "2"}, {"SLURM_LOCALID", "x"}});
  EXPECT_FALSE(srun.mpi);  // srun without a PMI gives four worlds of one
  EXPECT_EQ(srun.world_size, 4);
  EXPECT_EQ(srun.world_rank, 2);
  EXPECT_FALSE(srun.local_rank);
  EXPECT_TRUE(environment_of({{"SLURM_STEP_NUM_TASKS", "4"}, {"PMIX_RANK", "2"}}).mpi);
}

}  // namespace
}  // namespace fivefold
