// How work is cut among threads.
#include "kernels/cpu/parallel_for.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "kernels/cpu/gemm.h"

namespace fivefold::cpu {
namespace {

TEST(ParallelFor, TakesEveryItemOnce) {
  for (int threads : {1, 2, 3, 7})
    for (std::int64_t n : {0, 1, 5, 100})
      for (std::int64_t grain : {1, 4, 1000}) {
        std::vector<int> seen(static_cast<std::size_t>(n));
        parallel_for(threads, n, grain, [&](std::int64_t begin, std::int64_t end) {
          for (auto i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
        });
        EXPECT_EQ(seen, std::vector<int>(static_cast<std::size_t>(n), 1))
            << threads << ' ' << n << ' ' << grain;
      }
}

TEST(ParallelFor, CutsByThreadsAndGrainOnly) {
  EXPECT_EQ(part_count(4, 100, 1), 4);
  EXPECT_EQ(part_count(4, 100, 40), 2);
  EXPECT_EQ(part_count(4, 3, 40), 1);
  std::mutex mutex;
  std::set<std::pair<std::int64_t, std::int64_t>> parts;
  parallel_for(3, 10, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    parts.emplace(begin, end);
  });
  EXPECT_EQ(parts, (std::set<std::pair<std::int64_t, std::int64_t>>{{0, 3}, {3, 6}, {6, 10}}));
}

TEST(ParallelFor, PassesExceptionsOn) {
  const auto thrower = [](std::int64_t begin, std::int64_t) {
    if (begin > 0) throw Error("part");
  };
  EXPECT_THROW(parallel_for(3, 10, 1, thrower), Error);
}

TEST(TileGrid, ReadsLeast) {
  const auto grid = [](int threads, std::int64_t m, std::int64_t n) {
    const auto g = tile_grid(threads, 1, m, n, 64);
    return std::pair(g.rows, g.columns);
  };
  EXPECT_EQ(grid(1, 512, 512), std::pair(1l, 1l));
  EXPECT_EQ(grid(2, 2048, 256), std::pair(2l, 1l));
  EXPECT_EQ(grid(2, 256, 2048), std::pair(1l, 2l));
  EXPECT_EQ(grid(4, 512, 512), std::pair(2l, 2l));
  const auto small = tile_grid(8, 32768, 64, 64, 64);
  EXPECT_EQ(small.rows * small.columns, 1);
}

}  // namespace
}  // namespace fivefold::cpu
