// Order, cut, walk.
#include "launcher/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"

namespace fivefold {

namespace {

// Ids by falling logit, equal logits by rising id; the first `count` of them.
std::vector<std::int32_t> largest(std::span<const double> logits, std::size_t count) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const double x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(), before);
  ids.resize(count);
  return ids;
}

// exp((logit - largest) / temperature): probabilities up to a common factor.
std::vector<double> weights_of(std::span<const double> logits, const std::vector<std::int32_t>& ids,
                               double temperature) {
  std::vector<double> out;
  const double top = logits[static_cast<std::size_t>(ids.front())];
  for (const auto id : ids)
    out.push_back(std::exp((logits[static_cast<std::size_t>(id)] - top) / temperature));
  return out;
}

// How many of the descending weights it takes to reach `share` of their sum.
std::size_t reach(const std::vector<double>& weights, double share) {
  const double wanted = share * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i)
    if ((sum += weights[i]) >= wanted) return i + 1;
  return weights.size();
}

void check(std::span<const double> logits) {
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (std::isnan(logits[i]) || logits[i] == INFINITY)
      throw Error(str("the logit of token ", i, " is ", logits[i]));
  FF_CHECK(std::any_of(logits.begin(), logits.end(), [](double x) { return std::isfinite(x); }),
           "no token has a finite logit");
}

}  // namespace

std::int32_t sample(std::span<const double> logits, const SamplingOptions& options, double u) {
  check(logits);
  if (options.greedy) return largest(logits, 1).front();
  const auto vocab = logits.size();
  const auto ids =
      largest(logits, options.top_k > 0 ? std::min(vocab, static_cast<std::size_t>(options.top_k)) : vocab);
  auto weights = weights_of(logits, ids, options.temperature);
  if (options.top_p < 1) weights.resize(reach(weights, options.top_p));
  double left = u * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t chosen = 0;
  for (; chosen + 1 < weights.size() && left >= weights[chosen]; ++chosen) left -= weights[chosen];
  // Rounding may walk past the last token that has a weight at all.
  while (weights[chosen] == 0) --chosen;
  return ids[chosen];
}

}  // namespace fivefold
