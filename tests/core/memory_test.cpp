// The tagged pool: accounting, poison, alignment, lifetime.
#include "core/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "core/tensor.h"

namespace fivefold {
namespace {

std::size_t at(Tag tag) { return static_cast<std::size_t>(tag); }

TEST(Memory, CountsPerTagAndKeepsHighWaterMarks) {
  const auto memory = make_cpu_memory();
  CpuStream stream;
  auto weights = memory->allocate(1000, Tag::weights, stream);
  auto scratch = memory->allocate(300, Tag::workspace, stream);
  scratch.reset();
  auto moments = memory->allocate(500, Tag::moments, stream);
  const auto report = memory->report();
  EXPECT_EQ(report.now[at(Tag::weights)], 1000);
  EXPECT_EQ(report.now[at(Tag::workspace)], 0);
  EXPECT_EQ(report.peak[at(Tag::workspace)], 300);
  EXPECT_EQ(report.now_total, 1500);
  EXPECT_EQ(report.peak_total, 1500);  // the peak of the sum, not 1800, the sum of peaks
}

TEST(Memory, PeaksStartAgainFromWhatIsInUse) {
  const auto memory = make_cpu_memory();
  CpuStream stream;
  auto kept = memory->allocate(100, Tag::data, stream);
  memory->allocate(900, Tag::data, stream).reset();
  memory->reset_peaks();
  EXPECT_EQ(memory->report().peak[at(Tag::data)], 100);
  EXPECT_EQ(memory->report().peak_total, 100);
}

TEST(Memory, ReportListsTheLargestFirst) {
  const auto memory = make_cpu_memory();
  CpuStream stream;
  auto small = memory->allocate(1 << 20, Tag::weights, stream);
  auto large = memory->allocate(4 << 20, Tag::moments, stream);
  EXPECT_EQ(to_string(memory->report()),
            "moments: peak 4.0 MiB, now 4.0 MiB\nweights: peak 1.0 MiB, now 1.0 MiB\ntogether: peak 5.0 MiB, "
            "now 5.0 MiB\n");
}

// What is over the limit is refused with all that is known, and changes nothing.
TEST(Memory, LimitIsKeptAndTheRefusalTellsWhatIsInUse) {
  const auto memory = make_cpu_memory({.limit_bytes = 3 << 20});
  CpuStream stream;
  auto weights = memory->allocate(2 << 20, Tag::weights, stream);
  const auto whole = memory->allocate(1 << 20, Tag::data, stream);
  weights.reset();
  try {
    empty(*memory, {1024, 600}, DType::f32, Tag::activations, stream);
    FAIL() << "2.3 MiB of 2";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.bytes(), 1024 * 600 * 4);
    EXPECT_EQ(error.room(), 3 << 20);
    EXPECT_EQ(error.tag(), Tag::activations);
    EXPECT_STREQ(error.what(),
                 "out of memory: 2.3 MiB for activations do not fit\n"
                 "the limit is 3.0 MiB, of which 2.0 MiB are free\n"
                 "in use by this rank:\n"
                 "weights: peak 2.0 MiB, now 0.0 MiB\n"
                 "data: peak 1.0 MiB, now 1.0 MiB\n"
                 "together: peak 3.0 MiB, now 1.0 MiB\n"
                 "asked for: a tensor [1024, 600] of f32\n");
  }
  EXPECT_NO_THROW(memory->allocate(2 << 20, Tag::weights, stream));
}

TEST(Memory, EveryBufferIsAlignedAndEmptyOnesAreValid) {
  const auto memory = make_cpu_memory();
  CpuStream stream;
  std::vector<std::shared_ptr<Buffer>> held;
  for (const std::int64_t bytes : {0, 1, 63, 64, 65, 1000, 123457}) {
    held.push_back(memory->allocate(bytes, Tag::activations, stream));
    EXPECT_EQ(held.back()->bytes(), bytes);
    EXPECT_NE(held.back()->data(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(held.back()->data()) % 64, 0u);
    std::memset(held.back()->data(), 1, static_cast<std::size_t>(bytes));
  }
  EXPECT_THROW(memory->allocate(-1, Tag::activations, stream), Error);
}

// B46: unwritten outputs must not look like zeros.
TEST(Memory, PoisonFillsNewAndReusedBuffers) {
  const auto memory = make_cpu_memory({.poison = true});
  CpuStream stream;
  for (int round = 0; round < 2; ++round) {
    const auto buffer = memory->allocate(4096, Tag::activations, stream);
    for (int i = 0; i < 4096; ++i)
      ASSERT_EQ(buffer->data()[i], std::byte{0xff}) << "round " << round << " byte " << i;
    std::memset(buffer->data(), 0, 4096);
  }
}

TEST(Memory, FreedBlocksAreHandedOutAgain) {
  const auto memory = make_cpu_memory();
  CpuStream stream;
  auto first = memory->allocate(1 << 20, Tag::activations, stream);
  const auto* block = first->data();
  first.reset();
  EXPECT_EQ(memory->allocate(1 << 20, Tag::gradients, stream)->data(), block);
}

TEST(Memory, BuffersOutliveTheHandleOfTheirPool) {
  auto memory = make_cpu_memory();
  CpuStream stream;
  const auto buffer = memory->allocate(128, Tag::weights, stream);
  memory.reset();
  std::memset(buffer->data(), 7, 128);
  EXPECT_EQ(buffer->data()[127], std::byte{7});
}

TEST(Memory, ThreadsShareAPool) {
  const auto memory = make_cpu_memory();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      CpuStream stream;
      for (int i = 1; i <= 200; ++i) memory->allocate(i, Tag::communication, stream);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(memory->report().now_total, 0);
  EXPECT_GE(memory->report().peak_total, 200);
}

}  // namespace
}  // namespace fivefold
