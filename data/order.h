// The order in which samples are visited: a keyed permutation of [0, n) per epoch, a pure function of (seed,
// stream, epoch, n). A fixed format (docs/formats/order.md): runs resume by it, so it never changes.
#pragma once
#include <cstdint>

namespace fivefold {

class Permutation {
 public:
  // size in [1, 2^63 - 1], stream (number of the source in a mixture) below 2^24.
  Permutation(std::uint64_t seed, std::int64_t stream, std::int64_t epoch, std::int64_t size);
  // A bijection of [0, size) onto itself. Constant time and memory for every size.
  std::int64_t operator()(std::int64_t i) const;
  std::int64_t inverse(std::int64_t x) const;

 private:
  std::uint64_t forward(std::uint64_t x) const;
  std::uint64_t backward(std::uint64_t x) const;
  std::uint64_t round_word(int round, std::uint64_t half) const;

  std::uint64_t key_, epoch_, size_, half_mask_;
  std::uint32_t stream_;
  int half_bits_;
};

}  // namespace fivefold
