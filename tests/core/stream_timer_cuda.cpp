// Times of points in the order of a CUDA device's stream.
#include <gtest/gtest.h>

#include <chrono>

#include "core/copy.h"
#include "core/cuda.h"

namespace fivefold {
namespace {

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

TEST(GpuStreamTimer, TellsWhenWorkRanByTheHostsClock) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto stream = make_cuda_stream(0);
  const auto memory = make_cuda_memory(0);
  constexpr std::int64_t kBytes = std::int64_t{1} << 28;
  const auto block = empty(*memory, {2, kBytes}, DType::u8, Tag::workspace, *stream);
  stream->synchronize();
  const auto timer = make_stream_timer({DeviceKind::cuda, 0});
  const auto before = now_ns();
  const auto a = timer->mark(*stream);
  for (int i = 0; i < 20; ++i) copy_bytes(block.rows(0, 1), block.rows(1, 2), *stream);
  const auto b = timer->mark(*stream);
  const auto queued = now_ns();
  const double seconds = timer->seconds(a, b);
  const auto after = now_ns();
  constexpr std::int64_t kDoubt = 200'000;
  EXPECT_GT(timer->nanoseconds(a), before - kDoubt);
  EXPECT_LT(timer->nanoseconds(a), queued + kDoubt);
  EXPECT_LT(timer->nanoseconds(b), after + kDoubt);
  EXPECT_NEAR(static_cast<double>(timer->nanoseconds(b) - timer->nanoseconds(a)) * 1e-9, seconds, 5e-6);
  EXPECT_GT(seconds, 20.0 * 2 * kBytes / 10e12) << "faster than any memory";
  EXPECT_LT(seconds, static_cast<double>(after - before) * 1e-9);
}

TEST(GpuStreamTimer, RefusesAStreamOfAnotherDevice) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  CpuStream host;
  EXPECT_THROW(make_cuda_timer(0)->mark(host), Error);
}

}  // namespace
}  // namespace fivefold
