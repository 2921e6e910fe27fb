// B68: how much memory a save and a load take beside the tensors, as the operating system sees it.
#include <fstream>
#include <string>

#include "tests/checkpoint/checkpoint_testing.h"
#include "tests/checkpoint/temp_dir.h"

namespace fivefold::test {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::int64_t status_bytes(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return std::stoll(line.substr(key.size())) * 1024;
  return -1;
}

// Peak resident memory while `work` runs, above what was resident before; -1 where the system cannot say.
std::int64_t extra_memory(const std::function<void()>& work) {
  std::ofstream reset("/proc/self/clear_refs");
  if (!(reset << "5" << std::flush)) return -1;
  const auto before = status_bytes("VmRSS:");
  work();
  return status_bytes("VmHWM:") - before;
}

// A rank's share of one large tensor; filled, so that its pages are there.
std::vector<LocalTensor> share(std::int64_t rows, int ranks, int rank) {
  const Shape global{rows, 1024};
  Box box = whole(global);
  box.begin[0] = rows / ranks * rank;
  box.end[0] = box.begin[0] + rows / ranks;
  const auto data = host_tensor(box.shape(), DType::f32);
  for (std::int64_t i = 0; i < data.count(); ++i)
    data.data<float>()[i] = static_cast<float>(i % 1009) * 0.001f;
  return {{"model/x", global, box, data}};
}

struct Extra {
  std::int64_t save = 0, load = 0;
};

Extra extra_of(std::int64_t bytes, int ranks) {
  const TempDir temp;
  PosixFileSystem fs;
  Extra extra;
  std::vector<std::vector<LocalTensor>> shares;
  for (int rank = 0; rank < ranks; ++rank) shares.push_back(share(bytes / 4096, ranks, rank));
  const auto on_ranks = [&](const std::function<void(std::span<const LocalTensor>, Communicator&)>& work) {
    return extra_memory([&] {
      run_ranks(ranks, [&](Transport& transport) {
        work(shares[static_cast<std::size_t>(transport.world().rank())], transport.world());
      });
    });
  };
  extra.save = on_ranks([&](auto mine, auto& world) { save(fs, temp.path(), state_at(1), mine, world); });
  extra.load =
      on_ranks([&](auto mine, auto& world) { load(fs, temp.path() / "step_00000001", mine, world); });
  return extra;
}

TEST(Memory, ASaveAndALoadTakeAFewBlocksWhateverTheSize) {
  if (extra_memory([] {}) < 0) GTEST_SKIP() << "this system does not reset VmHWM";
  // Four ranks of one process; per rank at most eight blocks (buffers of codec, file and allocator) and a
  // thread.
  for (const std::int64_t bytes : {32 * kMiB, 128 * kMiB})
    for (const int ranks : {1, 4}) {
      const auto extra = extra_of(bytes, ranks);
      EXPECT_LT(extra.save, ranks * 5 * kBlockBytes) << bytes / kMiB << " MiB on " << ranks << " ranks";
      EXPECT_LT(extra.load, ranks * 5 * kBlockBytes) << bytes / kMiB << " MiB on " << ranks << " ranks";
      RecordProperty(str("save_", bytes / kMiB, "MiB_", ranks, "ranks_KiB"),
                     static_cast<int>(extra.save / 1024));
      RecordProperty(str("load_", bytes / kMiB, "MiB_", ranks, "ranks_KiB"),
                     static_cast<int>(extra.load / 1024));
    }
}

}  // namespace
}  // namespace fivefold::test
