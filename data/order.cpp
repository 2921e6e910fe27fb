#include "data/order.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/error.h"
#include "core/philox.h"

namespace fivefold {
namespace {

constexpr int kRounds = 10;

// Half the width of the smallest even-bit domain that holds [0, size), at least one bit.
int half_bits_for(std::uint64_t size) {
  return std::max(1, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2);
}

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::int64_t stream, std::int64_t epoch, std::int64_t size)
    : key_(seed ^ hash_name("data/order")),
      epoch_(static_cast<std::uint64_t>(epoch)),
      size_(static_cast<std::uint64_t>(size)),
      stream_(static_cast<std::uint32_t>(stream)) {
  FF_CHECK(size >= 1 && epoch >= 0 && stream >= 0 && stream < (1 << 24), "size ", size, " epoch ", epoch,
           " stream ", stream);
  half_bits_ = half_bits_for(size_);
  half_mask_ = (std::uint64_t{1} << half_bits_) - 1;
}

std::uint64_t Permutation::round_word(int round, std::uint64_t half) const {
  const PhiloxBlock counter = {static_cast<std::uint32_t>(half),
                               static_cast<std::uint32_t>(round) | stream_ << 8,
                               static_cast<std::uint32_t>(epoch_), static_cast<std::uint32_t>(epoch_ >> 32)};
  return philox(key_, counter)[0] & half_mask_;
}

std::uint64_t Permutation::forward(std::uint64_t x) const {
  std::uint64_t left = x >> half_bits_, right = x & half_mask_;
  for (int round = 0; round < kRounds; ++round) {
    left ^= round_word(round, right);
    std::swap(left, right);
  }
  return left << half_bits_ | right;
}

std::uint64_t Permutation::backward(std::uint64_t x) const {
  std::uint64_t left = x >> half_bits_, right = x & half_mask_;
  for (int round = kRounds - 1; round >= 0; --round) {
    std::swap(left, right);
    left ^= round_word(round, right);
  }
  return left << half_bits_ | right;
}

// The network permutes the even-bit domain; following its cycle until it comes back below size permutes [0,
// size). The domain is less than 4 x size, so that takes fewer than 4 steps on average.
std::int64_t Permutation::operator()(std::int64_t i) const {
  auto x = static_cast<std::uint64_t>(i);
  FF_CHECK(i >= 0 && x < size_, i, " of ", size_);
  do {
    x = forward(x);
  } while (x >= size_);
  return static_cast<std::int64_t>(x);
}

std::int64_t Permutation::inverse(std::int64_t x) const {
  auto i = static_cast<std::uint64_t>(x);
  FF_CHECK(x >= 0 && i < size_, x, " of ", size_);
  do {
    i = backward(i);
  } while (i >= size_);
  return static_cast<std::int64_t>(i);
}

}  // namespace fivefold
