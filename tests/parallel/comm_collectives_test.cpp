// Values of all collectives over ranks that are threads, the order of sums, and a group of one.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/philox.h"
#include "parallel/comm/rank_sum.h"
#include "parallel/comm/thread_world.h"
#include "tests/support/collective_cases.h"

namespace fivefold {
namespace {

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, AllOperationsTypesAndSizes) {
  run_ranks(GetParam(), [](Transport& transport) { test::check_collectives(transport); });
}

TEST_P(Collectives, SumsHaveTheSameBitsEveryTime) {
  std::uint64_t first = 0;
  for (int round = 0; round < 3; ++round)
    run_ranks(GetParam(), [&](Transport& transport) {
      const auto hash = test::hash_of_random_sums(transport);
      if (transport.world().rank() != 0) return;
      if (round == 0) first = hash;
      EXPECT_EQ(hash, first);
    });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 4, 8));

template <class T>
std::vector<T> reduced(const std::vector<std::vector<T>>& ranks, Reduce op) {
  std::vector<const std::byte*> in;
  for (const auto& rank : ranks) in.push_back(reinterpret_cast<const std::byte*>(rank.data()));
  std::vector<T> out(ranks[0].size());
  reduce_in_rank_order(reinterpret_cast<std::byte*>(out.data()), in, dtype_of<T>(),
                       static_cast<std::int64_t>(out.size()), op);
  return out;
}

TEST(RankSum, AddsFromRankZeroUpwards) {
  const std::vector<std::vector<float>> ranks{{1e8f, 1}, {1, 1e8f}, {-1e8f, -1e8f}};
  EXPECT_EQ(reduced(ranks, Reduce::sum), (std::vector<float>{(1e8f + 1.0f) - 1e8f, (1.0f + 1e8f) - 1e8f}));
  const std::vector<std::vector<float>> other{{1e8f}, {-1e8f}, {1}};
  EXPECT_EQ(reduced(other, Reduce::sum), std::vector<float>{1});
}

// B52: the sum of many small bf16 numbers is kept in f32 and rounded once.
TEST(RankSum, Bf16AccumulatesInF32) {
  const std::vector<std::vector<bf16>> ranks(512, {bf16(1.0f)});
  EXPECT_EQ(static_cast<float>(reduced(ranks, Reduce::sum)[0]), 512.0f);
}

TEST(RankSum, MatchesANaiveLoopOverOddSizes) {
  for (const std::size_t count : {1u, 2047u, 2048u, 2049u, 5000u}) {
    std::vector<std::vector<double>> ranks(5, std::vector<double>(count));
    for (std::size_t r = 0; r < 5; ++r)
      for (std::size_t i = 0; i < count; ++i) ranks[r][i] = philox_normal(1, r, i);
    const auto sums = reduced(ranks, Reduce::sum), largest = reduced(ranks, Reduce::max);
    for (std::size_t i = 0; i < count; ++i) {
      double sum = ranks[0][i], top = ranks[0][i];
      for (std::size_t r = 1; r < 5; ++r) sum += ranks[r][i], top = std::max(top, ranks[r][i]);
      ASSERT_EQ(sums[i], sum);
      ASSERT_EQ(largest[i], top);
    }
  }
}

TEST(RankSum, NanStaysOnAnyRankAndIntegersWrap) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto op : {Reduce::sum, Reduce::max}) {
    EXPECT_TRUE(std::isnan(reduced<float>({{nan}, {1}, {2}}, op)[0]));
    EXPECT_TRUE(std::isnan(reduced<float>({{1}, {nan}, {2}}, op)[0]));
    EXPECT_TRUE(std::isnan(reduced<float>({{1}, {2}, {nan}}, op)[0]));
  }
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max(),
                 kLeast = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ(reduced<std::int32_t>({{kMost}, {1}}, Reduce::sum)[0], kLeast);
  EXPECT_EQ(reduced<std::int32_t>({{-5}, {3}, {kLeast}}, Reduce::max)[0], 3);
}

// A group of one needs no partner, moves nothing over the wire and leaves no record.
TEST(GroupOfOne, IsTheIdentity) {
  const auto ledgers = run_ranks(2, [](Transport& transport) {
    const auto self = transport.create("self", {transport.world().rank()});
    if (transport.world().rank() == 1) return;
    const auto memory = make_cpu_memory();
    CpuStream stream;
    const auto a = empty(*memory, {4}, DType::i32, Tag::communication, stream);
    const auto b = empty(*memory, {4}, DType::i32, Tag::communication, stream);
    for (int i = 0; i < 4; ++i) a.data<std::int32_t>()[i] = i + 1;
    self->all_gather(b, a, stream).wait(stream);
    EXPECT_EQ(b.data<std::int32_t>()[3], 4);
    EXPECT_EQ(self->gather_bytes("x"), std::vector<std::string>{"x"});
    EXPECT_THROW(static_cast<void>(self->send(a, 0, stream)), Error);
  });
  EXPECT_TRUE(ledgers[0]->records().empty());
}

// Wrong shapes and dtypes are refused before anything is launched.
TEST(Checks, RefuseWhatDoesNotFit) {
  run_ranks(2, [](Transport& transport) {
    auto& world = transport.world();
    const auto memory = make_cpu_memory();
    CpuStream stream;
    const auto make = [&](Shape shape, DType dtype) {
      return empty(*memory, shape, dtype, Tag::communication, stream);
    };
    const std::vector<std::int64_t> one_row{1, 0}, rows{2, 1};
    EXPECT_THROW(static_cast<void>(world.all_gather(make({5}, DType::f32), make({2}, DType::f32), stream)),
                 Error);
    EXPECT_THROW(static_cast<void>(world.all_gather(make({4}, DType::f32), make({2}, DType::i32), stream)),
                 Error);
    EXPECT_THROW(static_cast<void>(world.reduce_scatter(make({2}, DType::u8), make({4}, DType::u8), stream)),
                 Error);
    EXPECT_THROW(static_cast<void>(world.all_reduce(make({2}, DType::u8), Reduce::sum, stream)), Error);
    EXPECT_THROW(static_cast<void>(world.all_to_all(make({3, 2}, DType::f32), rows, make({3, 1}, DType::f32),
                                                    rows, stream)),
                 Error);
    EXPECT_THROW(static_cast<void>(world.all_to_all(make({3, 2}, DType::f32), rows, make({3, 2}, DType::f32),
                                                    one_row, stream)),
                 Error);
    EXPECT_THROW(static_cast<void>(world.send(make({1}, DType::f32), world.rank(), stream)), Error);
    EXPECT_THROW(static_cast<void>(world.recv(make({1}, DType::f32), 2, stream)), Error);
    Group group(world);
    EXPECT_THROW(world.barrier(), Error);
  });
}

}  // namespace
}  // namespace fivefold
