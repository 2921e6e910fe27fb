// Ranks that are threads with operands on CUDA devices: values, the bits of host sums, order without waiting
// hosts, and failures after which the device still works.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/copy.h"
#include "core/cuda.h"
#include "core/transfer.h"
#include "parallel/comm/thread_world.h"
#include "tests/support/collective_cases.h"

namespace fivefold {
namespace {

test::Place on_device(int device) {
  return {make_cuda_memory(device, {.poison = true}), make_cuda_stream(device)};
}

double first_of(const Tensor& t, Stream& stream) { return to_host(t, stream).at(0); }

class GpuThreads : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() < 1) GTEST_SKIP() << "no CUDA device";
  }
};

class GpuCollectives : public GpuThreads, public testing::WithParamInterface<int> {};

TEST_P(GpuCollectives, AllOperationsTypesAndSizes) {
  run_ranks(GetParam(), [](Transport& transport) { test::check_collectives(transport, on_device(0)); });
}

TEST_P(GpuCollectives, SumsHaveTheBitsOfTheHost) {
  std::uint64_t on_host = 0, on_gpu = 0;
  run_ranks(GetParam(), [&](Transport& transport) {
    const auto host = test::hash_of_random_sums(transport);
    const auto gpu = test::hash_of_random_sums(transport, on_device(0));
    if (transport.world().rank() == 0) on_host = host, on_gpu = gpu;
  });
  EXPECT_EQ(on_gpu, on_host);
}

INSTANTIATE_TEST_SUITE_P(Ranks, GpuCollectives, testing::Values(1, 2, 3, 4, 8));

template <int Devices>
void check_several_devices(int ranks) {
  if (cuda_device_count() < Devices) GTEST_SKIP() << "fewer than " << Devices << " CUDA devices";
  std::uint64_t on_host = 0, on_gpus = 0;
  run_ranks(ranks, [&](Transport& transport) {
    const int rank = transport.world().rank();
    test::check_collectives(transport, on_device(rank % Devices));
    const auto host = test::hash_of_random_sums(transport);
    const auto gpus = test::hash_of_random_sums(transport, on_device(rank % Devices));
    if (rank == 0) on_host = host, on_gpus = gpus;
  });
  EXPECT_EQ(on_gpus, on_host);
}

TEST(Gpu2Collectives, OneRankEach) { check_several_devices<2>(2); }
TEST(Gpu2Collectives, SomeDevicesHaveTwoRanks) { check_several_devices<2>(3); }
TEST(Gpu4Collectives, OneRankEach) { check_several_devices<4>(4); }
TEST(Gpu8Collectives, OneRankEach) { check_several_devices<8>(8); }

// A NaN on any rank stays, and integers wrap.
TEST_F(GpuThreads, NanStaysAndIntegersWrap) {
  constexpr int kRanks = 3;
  run_ranks(kRanks, [](Transport& transport) {
    auto& world = transport.world();
    const auto place = on_device(0);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const auto dtype : {DType::f64, DType::f32, DType::bf16})
      for (const auto op : {Reduce::sum, Reduce::max}) {
        std::vector<double> values{1, 2, 3};  // element r is a NaN on rank r
        values[static_cast<std::size_t>(world.rank())] = nan;
        const auto t = upload(*place.memory, values, {kRanks}, dtype, Tag::communication, *place.stream);
        world.all_reduce(t, op, *place.stream).wait(*place.stream);
        for (const double value : to_host(t, *place.stream)) FF_CHECK(std::isnan(value), dtype, " ", value);
      }
    constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
    const std::vector<std::int32_t> values{world.rank() == 0 ? kMost : world.rank() == 1 ? 1 : 0};
    const auto t = upload(*place.memory, values, {1}, Tag::communication, *place.stream);
    world.all_reduce(t, Reduce::sum, *place.stream).wait(*place.stream);
    FF_CHECK_EQ(first_of(t, *place.stream), std::numeric_limits<std::int32_t>::min());
  });
}

// Keeps the stream busy for tens of milliseconds.
void keep_busy(const test::Place& place) {
  const auto big = empty(*place.memory, {1 << 28}, DType::f32, Tag::workspace, *place.stream);
  for (int i = 0; i < 100; ++i) copy_bytes(big.slice(0, 1 << 27), big.slice(1 << 27, 1 << 27), *place.stream);
}

// A slow producer on one rank: its partner's consumer waits on the device, no host does.
TEST_F(GpuThreads, DevicesWaitAndHostsDoNot) {
  run_ranks(2, [](Transport& transport) {
    auto& world = transport.world();
    const auto place = on_device(0);
    auto& stream = *place.stream;
    const auto t = upload(*place.memory, std::vector<double>{1}, {1}, DType::f32, Tag::communication, stream);
    world.all_reduce(t, Reduce::sum, stream).wait(stream);  // both have started, kernels are loaded
    stream.synchronize();
    if (world.rank() == 1) keep_busy(place);
    auto work = world.all_reduce(t, Reduce::sum, stream);
    work.wait(stream);
    FF_CHECK(!stream.reached(stream.record()), "the device was waited for");
    world.barrier();  // the copy below keeps the driver from others' calls
    FF_CHECK_EQ(first_of(t, stream), 4.0);
  });
}

// A host consumer is the one that waits itself.
TEST_F(GpuThreads, AHostConsumerWaits) {
  run_ranks(2, [](Transport& transport) {
    const auto place = on_device(0);
    const auto t =
        upload(*place.memory, std::vector<double>{3}, {1}, DType::f32, Tag::communication, *place.stream);
    const auto later =
        upload(*place.memory, std::vector<double>{7}, {1}, DType::f32, Tag::communication, *place.stream);
    if (transport.world().rank() == 1) {
      keep_busy(place);
      copy_bytes(t, later, *place.stream);
    }
    CpuStream host;
    transport.world().all_reduce(t, Reduce::max, *place.stream).wait(host);
    const auto unordered = make_cuda_stream(0);
    FF_CHECK_EQ(first_of(t, *unordered), 7.0);
  });
}

TEST_F(GpuThreads, OneCommunicatorTakesBothKinds) {
  const auto ledgers = run_ranks(2, [](Transport& transport) {
    auto& world = transport.world();
    const auto place = on_device(0);
    for (const auto& where : {test::Place(), place}) {
      const auto t =
          upload(*where.memory, std::vector<double>{2.5}, {1}, DType::f32, Tag::communication, *where.stream);
      world.all_reduce(t, Reduce::sum, *where.stream).wait(*where.stream);
      FF_CHECK_EQ(first_of(t, *where.stream), 5.0);
    }
    place.stream->synchronize();
    world.barrier();  // the ledger learns of the end at a later transfer
  });
  for (const auto& ledger : ledgers)
    for (const auto& record : ledger->records()) {
      EXPECT_GE(record.started_ns, record.enqueued_ns);
      EXPECT_GE(record.done_ns, record.started_ns) << name_of(record.op) << record.sequence;
    }
}

std::string error_of_ranks(int ranks, const std::function<void(Transport&)>& body) {
  try {
    run_ranks(ranks, body);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(GpuThreads, RanksThatDisagreeAboutTheDeviceAreNamed) {
  const auto text = error_of_ranks(2, [](Transport& transport) {
    const auto place = transport.world().rank() == 0 ? test::Place() : on_device(0);
    const auto t = empty(*place.memory, {1}, DType::f32, Tag::communication, *place.stream);
    transport.world().all_reduce(t, Reduce::sum, *place.stream).wait(*place.stream);
  });
  EXPECT_NE(text.find("ranks disagree"), std::string::npos) << text;
  EXPECT_NE(text.find("on a CUDA device"), std::string::npos) << text;
}

// Ranks leave in every state of their transfers: streams and memory go, and the device still works
// afterwards.
TEST_F(GpuThreads, AFailingRankLeavesTheDeviceUsable) {
  for (int round = 0; round < 20; ++round) {
    const auto text = error_of_ranks(4, [&](Transport& transport) {
      auto& world = transport.world();
      const auto place = on_device(0);
      const auto t = empty(*place.memory, {1 << 20}, DType::f32, Tag::communication, *place.stream);
      for (int i = 0;; ++i) {
        auto work = world.all_reduce(t, Reduce::sum, *place.stream);
        if (world.rank() == round % 4 && i == 3) throw Error("on purpose");
        work.wait(*place.stream);
      }
    });
    EXPECT_EQ(text, str("rank ", round % 4, ": on purpose"));
  }
  run_ranks(2, [](Transport& transport) { test::hash_of_random_sums(transport, on_device(0)); });
}

TEST_F(GpuThreads, APartnerThatNeverComesIsADeadlock) {
  const auto text = error_of_ranks(2, [](Transport& transport) {
    const auto place = on_device(0);
    const auto t = empty(*place.memory, {1}, DType::f32, Tag::communication, *place.stream);
    if (transport.world().rank() == 0) transport.world().send(t, 1, *place.stream).wait(*place.stream);
  });
  EXPECT_NE(text.find("ended without launching it"), std::string::npos) << text;
}

}  // namespace
}  // namespace fivefold
