// From logits to the next token: greedy, temperature, top-k, top-p. Pure.
#pragma once
#include <cstdint>
#include <span>

namespace fivefold {

struct SamplingOptions {
  bool greedy = false;     // the largest logit, the lower id of equal ones; the fields below do not count
  double temperature = 1;  // > 0; logits are divided by it
  std::int64_t top_k = 0;  // only the k largest logits; 0: all
  double top_p = 1;  // then only the fewest most probable tokens that together have at least this probability
};

// The token that `u` in (0, 1) picks. Tokens are ordered by falling logit (equal ones by rising id) and each
// takes a part of (0, 1) as long as its probability among those kept, so that a small u means a likely token.
// Logits of -inf are never picked. Throws Error where no logit is finite.
std::int32_t sample(std::span<const double> logits, const SamplingOptions& options, double u);

}  // namespace fivefold
