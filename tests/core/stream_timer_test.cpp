// Times of points in a stream's order.
#include "core/stream_timer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace fivefold {
namespace {

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

TEST(StreamTimer, OnTheHostIsTheHostsClock) {
  CpuStream stream;
  const auto timer = make_stream_timer({});
  const auto before = now_ns();
  const auto a = timer->mark(stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  const auto b = timer->mark(stream);
  EXPECT_GE(timer->nanoseconds(a), before);
  EXPECT_LE(timer->nanoseconds(b), now_ns());
  EXPECT_GE(timer->seconds(a, b), 3e-3);
  EXPECT_DOUBLE_EQ(timer->seconds(b, a), -timer->seconds(a, b));
  timer->clear();
  EXPECT_EQ(timer->mark(stream), 0u);
}

}  // namespace
}  // namespace fivefold
