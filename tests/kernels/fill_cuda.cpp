// The smoke kernel on a device: values, neighbours untouched, nothing to do for nothing.
#include <gtest/gtest.h>

#include "core/cuda.h"
#include "core/transfer.h"
#include "kernels/cuda/fill.h"

namespace fivefold {
namespace {

TEST(GpuFill, WritesItsElementsAndNoOthers) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto stream = make_cuda_stream(0);
  const auto memory = make_cuda_memory(0);
  for (const std::int64_t n : {0, 1, 255, 256, 257, 5'000'000}) {
    const auto all = upload(*memory, std::vector<double>(static_cast<std::size_t>(n + 2), -1.0), {n + 2},
                            DType::f32, Tag::workspace, *stream);
    cuda::fill(all.rows(1, n + 1), 2.5f, *stream);
    std::vector<double> expected(static_cast<std::size_t>(n + 2), 2.5);
    expected.front() = expected.back() = -1.0;
    EXPECT_EQ(to_host(all, *stream), expected) << n;
  }
}

}  // namespace
}  // namespace fivefold
