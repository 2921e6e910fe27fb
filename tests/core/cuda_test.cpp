// Device memory, streams and copies; skipped where there is no device.
#include "core/cuda.h"

#include <gtest/gtest.h>

#include "core/transfer.h"

namespace fivefold {
namespace {

TEST(GpuMemory, RoundTripAndTags) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto stream = make_cuda_stream(0);
  const auto memory = make_cuda_memory(0, {.poison = true});
  std::vector<double> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  {
    const auto x = upload(*memory, values, {1000}, DType::f32, Tag::weights, *stream);
    EXPECT_EQ(to_host(x, *stream), values);
    EXPECT_EQ(memory->report().now[static_cast<std::size_t>(Tag::weights)], 4000);
  }
  EXPECT_EQ(memory->report().now_total, 0);
  EXPECT_EQ(memory->report().peak_total, 4000);
}

TEST(CudaAbsent, ThereAreNoDevicesOrSomeWithNames) {
  if (cuda_device_count() > 0) GTEST_SKIP() << "there is a CUDA device";
  EXPECT_THROW(make_cuda_memory(0), Error);
}

}  // namespace
}  // namespace fivefold
