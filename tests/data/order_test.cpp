// The keyed permutation and the mixture: exactness, evenness, and values that may never change.
#include "data/order.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "core/philox.h"
#include "data/mixture.h"
#include "tests/data/data_testing.h"

namespace fivefold {
namespace {

std::vector<std::int64_t> all_of(const Permutation& permutation, std::int64_t size) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < size; ++i) values.push_back(permutation(i));
  return values;
}

TEST(Permutation, IsABijectionForEverySmallSize) {
  for (std::int64_t size = 1; size <= 300; ++size) {
    const Permutation permutation(7, 0, size % 3, size);
    auto values = all_of(permutation, size);
    for (std::int64_t i = 0; i < size; ++i)
      EXPECT_EQ(permutation.inverse(values[static_cast<std::size_t>(i)]), i);
    std::sort(values.begin(), values.end());
    for (std::int64_t i = 0; i < size; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], i) << size;
  }
}

// B73: sizes beyond 32 bits, up to the largest.
TEST(Permutation, IsABijectionForHugeSizes) {
  for (const std::int64_t size : {(1ll << 31) + 11, (1ll << 32) - 1, (1ll << 32) + 1, 5'000'000'000ll,
                                  (1ll << 62) + 1, static_cast<long long>(INT64_MAX)}) {
    const Permutation permutation(3, 5, 1ll << 40, size);
    for (std::uint64_t n = 0; n < 500; ++n) {
      const auto word = philox(9, n, 0);
      const auto i = static_cast<std::int64_t>((std::uint64_t{word[0]} << 31 ^ word[1]) %
                                               static_cast<std::uint64_t>(size));
      const auto x = permutation(i);
      EXPECT_TRUE(x >= 0 && x < size);
      EXPECT_EQ(permutation.inverse(x), i);
    }
  }
}

// Runs resume by these values: a change here breaks every run in progress.
TEST(Permutation, ValuesNeverChange) {
  EXPECT_EQ(all_of(Permutation(1, 0, 0, 10), 10), (std::vector<std::int64_t>{6, 9, 5, 1, 8, 0, 7, 4, 2, 3}));
  EXPECT_EQ(all_of(Permutation(1, 0, 1, 10), 10), (std::vector<std::int64_t>{9, 8, 6, 1, 5, 4, 2, 3, 7, 0}));
  EXPECT_EQ(all_of(Permutation(1, 1, 0, 10), 10), (std::vector<std::int64_t>{8, 3, 9, 4, 1, 5, 0, 2, 6, 7}));
  EXPECT_EQ(all_of(Permutation(0xffffffffffffffffull, 0, 0, 16), 16),
            (std::vector<std::int64_t>{6, 3, 5, 9, 1, 13, 7, 0, 8, 10, 2, 4, 12, 14, 15, 11}));
  EXPECT_EQ(Permutation(42, 0, 3, 5'000'000'000)(4'999'999'999), 4785089085);
}

// Every order of a few elements is about equally likely over seeds and over epochs: chi-square at about six
// sigma.
TEST(Permutation, AllOrdersAreEquallyLikely) {
  constexpr int kDraws = 24000;
  for (const std::int64_t size : {2, 3, 4}) {
    for (const bool by_epoch : {false, true}) {
      std::map<std::vector<std::int64_t>, int> seen;
      for (int n = 0; n < kDraws; ++n)
        ++seen[all_of(Permutation(by_epoch ? 1 : n, 0, by_epoch ? n : 0, size), size)];
      const int orders = size == 2 ? 2 : size == 3 ? 6 : 24;
      ASSERT_EQ(static_cast<int>(seen.size()), orders);
      double chi_square = 0.0;
      const double expected = static_cast<double>(kDraws) / orders;
      for (const auto& [order, count] : seen)
        chi_square += (count - expected) * (count - expected) / expected;
      EXPECT_LT(chi_square, orders - 1 + 6 * std::sqrt(2.0 * (orders - 1))) << size << ' ' << by_epoch;
    }
  }
}

// Neighbours in the order are not neighbours in the data: the mean distance of successive samples is that of
// random pairs.
TEST(Permutation, BreaksUpNeighbourhoods) {
  constexpr std::int64_t kSize = 10007;
  const auto values = all_of(Permutation(5, 0, 0, kSize), kSize);
  double distance = 0.0;
  std::int64_t fixed = 0;
  for (std::size_t i = 0; i + 1 < values.size(); ++i)
    distance += std::abs(static_cast<double>(values[i + 1] - values[i]));
  for (std::size_t i = 0; i < values.size(); ++i) fixed += values[i] == static_cast<std::int64_t>(i);
  EXPECT_NEAR(distance / static_cast<double>(kSize - 1) / static_cast<double>(kSize), 1.0 / 3.0, 0.015);
  EXPECT_LE(fixed, 8);
}

TEST(Permutation, RefusesWhatIsOutOfRange) {
  EXPECT_THROW(Permutation(1, 0, 0, 0), Error);
  EXPECT_THROW(Permutation(1, 0, -1, 5), Error);
  EXPECT_THROW(Permutation(1, 0, 0, 5)(5), Error);
  EXPECT_THROW(Permutation(1, 0, 0, 5)(-1), Error);
}

TEST(Mixture, OneSourceIsTheIdentity) {
  const Mixture mixture(std::vector<double>{0.3});
  for (const std::int64_t i : {0ll, 1ll, 77ll, 1ll << 40})
    EXPECT_EQ(mixture.locate(i), (Mixture::Place{0, i}));
}

// Each source counts up without a gap, so the place of a sample follows from its index alone; counts stay
// near the shares.
TEST(Mixture, CountsAreExactAndEven) {
  const std::vector<std::vector<double>> cases = {{1, 1},          {3, 1},       {0.7, 0.2, 0.1},
                                                  {1, 1, 1, 1, 1}, {1e-3, 1, 5}, {1e6, 1}};
  for (const auto& weights : cases) {
    const Mixture mixture(weights);
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<std::int64_t> counts(weights.size(), 0);
    for (std::int64_t i = 0; i < 20000; ++i) {
      const auto place = mixture.locate(i);
      ASSERT_EQ(place.index, counts[static_cast<std::size_t>(place.source)]++) << i;
      for (std::size_t s = 0; s < weights.size(); ++s)
        ASSERT_LE(std::abs(static_cast<double>(counts[s]) - static_cast<double>(i + 1) * weights[s] / total),
                  1.5)
            << i << ' ' << s;
    }
  }
}

TEST(Mixture, ValuesNeverChange) {
  const Mixture mixture(std::vector<double>{0.5, 0.3, 0.2});
  std::vector<std::int64_t> sources;
  for (std::int64_t i = 0; i < 20; ++i) sources.push_back(mixture.locate(i).source);
  EXPECT_EQ(sources, (std::vector<std::int64_t>{0, 1, 0, 2, 0, 1, 0, 2, 0, 1, 0, 1, 0, 2, 0, 1, 0, 2, 0, 1}));
}

// B73: far indices go through 128-bit products.
TEST(Mixture, FarIndicesAreExact) {
  const Mixture mixture(std::vector<double>{3, 1});
  const std::int64_t far = 4'000'000'000'000'000'000;
  std::int64_t counts[2] = {3'000'000'000'000'000'000, 1'000'000'000'000'000'000};
  for (std::int64_t i = far; i < far + 100; ++i) {
    const auto place = mixture.locate(i);
    EXPECT_EQ(place.index, counts[place.source]++);
  }
}

}  // namespace
}  // namespace fivefold
