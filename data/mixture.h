// Which source each sample of a weighted mixture comes from: a pure function of the sample's index, evenly
// spread, with exact counts, so there is no state to save. A fixed format: docs/formats/order.md.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace fivefold {

class Mixture {
 public:
  struct Place {
    std::int64_t source;
    std::int64_t index;  // how many samples that source gave before
    bool operator==(const Place&) const = default;
  };

  // Weights are positive and finite; only their ratios count. With one source the mixture is the identity.
  explicit Mixture(std::span<const double> weights);
  // For i in [0, 2^63). Takes time in the number of sources.
  Place locate(std::int64_t i) const;

 private:
  std::vector<std::uint64_t> shares_;  // of source s among s and those behind it, in 2^-32; none for the last
};

}  // namespace fivefold
