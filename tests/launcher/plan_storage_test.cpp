// What storage options and a backend's own room do to the planned memory.
#include <gtest/gtest.h>

#include "kernels/cuda_backend.h"
#include "launcher/plan.h"
#include "tests/support/trajectory.h"

namespace fivefold {
namespace {

Config small_config() {
  Config config;
  config.model = test::small_llama();
  config.data.sequence = 12;
  config.train.global_batch = 8, config.train.micro_batch = 2;
  return config;
}

// Storage of state: bytes a parameter of each rank, and nothing else changes.
TEST(PlannedMemory, FollowsTheStorageOfState) {
  auto config = small_config();
  config.parallel.shard = 4, config.parallel.tp = 2, config.train.precision = DType::bf16;
  const auto peaks = [&](auto change) {
    auto changed = config;
    change(changed.train);
    return make_plan(changed, 8).ranks[0].memory.peak;
  };
  const auto at = [](const auto& peak, Tag tag) { return peak[static_cast<std::size_t>(tag)]; };
  const auto whole = peaks([](auto&) {});
  auto expected = whole;
  const auto halved = [&](Tag tag, std::int64_t fixed = 0) {
    auto out = whole;
    auto& bytes = out[static_cast<std::size_t>(tag)];
    bytes = (bytes - fixed) / 2 + fixed;
    return out;
  };
  const std::int64_t optimizer =
      8 * (static_cast<std::int64_t>(parameter_list(config.model).size()) + StepControl::kCount);
  EXPECT_EQ(peaks([](auto& t) { t.master = MasterStorage::f32; }), whole);
  EXPECT_EQ(peaks([](auto& t) { t.master = MasterStorage::split; }), halved(Tag::master));
  EXPECT_EQ(peaks([](auto& t) { t.moments = DType::bf16; }), halved(Tag::moments, optimizer));
  expected[static_cast<std::size_t>(Tag::master)] = 0;
  EXPECT_EQ(peaks([](auto& t) { t.master = MasterStorage::bf16; }), expected);
  const auto narrow = peaks([](auto& t) { t.gradients = DType::bf16; });
  EXPECT_LT(at(narrow, Tag::gradients), at(whole, Tag::gradients) * 3 / 4);
  EXPECT_GT(at(narrow, Tag::gradients), at(whole, Tag::gradients) / 2);  // tables and vectors stay
  EXPECT_EQ(at(narrow, Tag::moments), at(whole, Tag::moments));
}

// A CUDA device's backend keeps room of its own.
TEST(PlannedMemory, CountsTheRoomOfTheBackend) {
  auto config = small_config();
  config.parallel.shard = 2;
  const auto here = make_plan(config, 2).ranks[0].memory.peak;
  config.train.device = DeviceChoice::cuda;
  const auto there = make_plan(config, 2).ranks[0].memory.peak;
  const auto workspace = static_cast<std::size_t>(Tag::workspace);
  EXPECT_EQ(there[workspace], here[workspace] + kCudaWorkspaceBytes);
}

}  // namespace
}  // namespace fivefold
