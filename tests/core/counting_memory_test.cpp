// Memory without bytes counts like any other.
#include <gtest/gtest.h>

#include "core/transfer.h"

namespace fivefold {
namespace {

TEST(CountingMemory, CountsAnySize) {
  const auto memory = make_counting_memory();
  CpuStream stream;
  constexpr std::int64_t kHuge = std::int64_t{1} << 50;
  {
    const auto t = empty(*memory, {kHuge}, DType::f32, Tag::weights, stream);
    EXPECT_EQ(t.device().kind, DeviceKind::none);
    EXPECT_EQ(memory->report().now_total, 4 * kHuge);
    EXPECT_TRUE(t.rows(0, 8).precedes(t.rows(8, 16)));
  }
  EXPECT_EQ(memory->report().now_total, 0);
  EXPECT_EQ(memory->report().peak[static_cast<std::size_t>(Tag::weights)], 4 * kHuge);
  memory->reset_peaks();
  EXPECT_EQ(memory->report().peak_total, 0);
}

TEST(CountingMemory, CopiesGoNowhereAndComeBackZero) {
  const auto memory = make_counting_memory();
  CpuStream stream;
  const std::vector<double> values{1, 2, 3};
  const auto t = upload(*memory, std::span<const double>(values), {3}, DType::f32, Tag::data, stream);
  EXPECT_EQ(to_host(t, stream), (std::vector<double>{0, 0, 0}));
  EXPECT_THROW(write(t, std::vector<double>{1}, stream), Error);
}

}  // namespace
}  // namespace fivefold
