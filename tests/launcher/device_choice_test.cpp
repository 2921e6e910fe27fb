// GPUs by local rank, and when NCCL joins the ranks: over hosts with as many, fewer and no GPUs, and
// launchers that show each rank one of them.
#include "launcher/device_choice.h"

#include <gtest/gtest.h>

namespace fivefold {
namespace {

// `ranks` on each host, all of which see `gpus`.
std::vector<RankView> cluster(int hosts, int ranks, int gpus) {
  std::vector<RankView> views;
  for (int h = 0; h < hosts; ++h)
    for (int r = 0; r < ranks; ++r) {
      auto& view = views.emplace_back(RankView{str("host", h), r, {}});
      for (int g = 0; g < gpus; ++g) view.gpus.push_back(str("GPU-", h, "-", g));
    }
  return views;
}

std::string refusal(TransportName asked, bool on_gpus, bool built, const std::vector<RankView>& views) {
  try {
    return uses_nccl(asked, on_gpus, built, views) ? "nccl" : "mpi";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(GpuChoice, RanksOfAHostTakeTheGpusInTurn) {
  EXPECT_EQ(gpu_of(0, 4), 0);
  EXPECT_EQ(gpu_of(3, 4), 3);
  EXPECT_EQ(gpu_of(5, 4), 1);
  EXPECT_EQ(gpu_of(5, 1), 0);  // a launcher that shows each rank its own
  EXPECT_EQ(gpu_of(2, 0), -1);
}

TEST(GpuChoice, SharedGpusAreNamed) {
  EXPECT_FALSE(shared_gpu(cluster(2, 4, 4)));
  EXPECT_FALSE(shared_gpu(cluster(2, 4, 0)));
  const auto text = shared_gpu(cluster(2, 4, 2));
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "ranks 0 and 2 share GPU-0-0 of host host0, where 4 ranks run and rank 2 sees 2 GPUs");
  auto equal_names = cluster(2, 1, 1);  // the same UUID on two hosts is not the same GPU
  equal_names[1].gpus = equal_names[0].gpus;
  EXPECT_FALSE(shared_gpu(equal_names));
}

TEST(GpuChoice, RanksThatSeeOneGpuEachDoNotShare) {
  auto views = cluster(1, 4, 4);
  for (std::size_t r = 0; r < views.size(); ++r) views[r].gpus = {str("GPU-0-", r)};
  EXPECT_FALSE(shared_gpu(views));
  views[3].gpus = {"GPU-0-1"};
  EXPECT_TRUE(shared_gpu(views));
}

TEST(TransportChoice, AutomaticTakesNcclWhereEveryRankHasItsGpu) {
  const auto choice = [](const std::vector<RankView>& views, bool on_gpus = true, bool built = true) {
    return refusal(TransportName::automatic, on_gpus, built, views);
  };
  EXPECT_EQ(choice(cluster(2, 4, 4)), "nccl");
  EXPECT_EQ(choice(cluster(1, 4, 8)), "nccl");
  EXPECT_EQ(choice(cluster(1, 1, 1)), "mpi");  // nobody to talk to
  EXPECT_EQ(choice(cluster(1, 4, 2)), "mpi");
  EXPECT_EQ(choice(cluster(1, 4, 0)), "mpi");
  EXPECT_EQ(choice(cluster(2, 4, 4), false), "mpi");
  EXPECT_EQ(choice(cluster(2, 4, 4), true, false), "mpi");
  EXPECT_EQ(refusal(TransportName::mpi, true, true, cluster(2, 4, 4)), "mpi");
}

TEST(TransportChoice, NcclIsRefusedWithTheReason) {
  const auto text = [](const std::vector<RankView>& views, bool on_gpus = true, bool built = true) {
    return refusal(TransportName::nccl, on_gpus, built, views);
  };
  EXPECT_EQ(text(cluster(1, 1, 1)), "nccl");
  EXPECT_NE(text(cluster(1, 4, 2)).find("a GPU of its own, but ranks 0 and 2 share"), std::string::npos);
  EXPECT_NE(text(cluster(1, 2, 0)).find("rank 0 on host host0 sees no GPU"), std::string::npos);
  EXPECT_NE(text(cluster(1, 2, 2), false).find("compute on the CPU"), std::string::npos);
  EXPECT_NE(text(cluster(1, 2, 2), true, false).find("built without it"), std::string::npos);
  for (const auto& refused : {text(cluster(1, 4, 2)), text(cluster(1, 2, 2), false)})
    EXPECT_NE(refused.find("use parallel.transport=mpi or auto"), std::string::npos) << refused;
}

TEST(TransportChoice, F64StaysOnTheCpuUnlessAsked) {
  EXPECT_TRUE(wants_gpus({.precision = DType::bf16}));
  EXPECT_FALSE(wants_gpus({.precision = DType::f64}));
  TrainConfig train{.precision = DType::f64};
  train.device = DeviceChoice::cuda;
  EXPECT_TRUE(wants_gpus(train));
  train.device = DeviceChoice::cpu;
  EXPECT_FALSE(wants_gpus(train));
}

}  // namespace
}  // namespace fivefold
