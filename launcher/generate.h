// Text from a model: the logits behind a sequence of tokens, and the loop that appends what is sampled from
// them.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "launcher/engine.h"
#include "launcher/sampling.h"

namespace fivefold {

// The next token's logits, from an engine on one rank. Rows that the last call has been through are kept
// (keys and values of every block), so appending one token costs one row. Beyond the model's context only the
// last `context` tokens count, with positions from 0, and all of them run anew for every token.
class TokenDecoder {
 public:
  explicit TokenDecoder(Engine& engine) : engine_(engine) {}
  // [vocabulary] logits behind `tokens`, of which there is at least one, all inside the vocabulary.
  std::vector<double> next_logits(std::span<const std::int32_t> tokens);
  // Rows run through the model so far.
  std::int64_t rows_run() const { return rows_run_; }

 private:
  void forget();
  std::vector<double> feed(std::span<const std::int32_t> rows);

  Engine& engine_;
  KvCaches caches_;
  std::vector<std::int32_t> seen_;  // tokens whose rows are in the caches
  std::int64_t rows_run_ = 0;
};

struct GenerateOptions {
  std::int64_t max_tokens = 256;
  SamplingOptions sampling;
  std::uint64_t seed = 1;
  std::optional<std::int32_t> stop;  // a token that ends the sequence and is not emitted
};

// Appends up to max_tokens tokens to the sequence and hands each to `emit` as it comes. The token at place i
// of the sequence, given those before it, is a function of (seed, i): going on from a longer prompt gives
// what one run would have given. Returns the whole sequence.
std::vector<std::int32_t> generate(TokenDecoder& decoder, std::vector<std::int32_t> tokens,
                                   const GenerateOptions& options,
                                   const std::function<void(std::int32_t)>& emit);

}  // namespace fivefold
