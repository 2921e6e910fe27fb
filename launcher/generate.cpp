// Which rows are new, their masks, and the loop.
#include "launcher/generate.h"

#include <algorithm>
#include <numeric>

#include "core/philox.h"
#include "core/transfer.h"

namespace fivefold {

namespace {

constexpr std::int64_t kRowsAtOnce = 512;  // of a prompt: bounds the activations' memory

std::vector<std::int32_t> ascending(std::int64_t begin, std::int64_t end) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(end - begin));
  std::iota(out.begin(), out.end(), static_cast<std::int32_t>(begin));
  return out;
}

// Rows [begin, end) of one sequence, seen with every row before them.
TokenRows rows_behind(const Run& run, std::int64_t begin, std::span<const std::int32_t> tokens,
                      std::int64_t window) {
  const auto put = [&](std::span<const std::int32_t> values) {
    return upload(run.memory, values, {static_cast<std::int64_t>(values.size())}, Tag::data, run.stream);
  };
  const auto end = begin + static_cast<std::int64_t>(tokens.size());
  const auto place = put(ascending(begin, end));
  std::vector<std::int32_t> first(tokens.size(), 0);
  double pairs = 0;
  for (auto i = begin; i < end; ++i) {
    const auto visible = window > 0 ? std::min(window, i + 1) : i + 1;
    first[static_cast<std::size_t>(i - begin)] = static_cast<std::int32_t>(i + 1 - visible);
    pairs += static_cast<double>(visible);
  }
  return {.tokens = put(tokens),
          .targets = {},
          .position = place,
          .q_index = place,
          .first_visible = put(first),
          .k_index = put(ascending(0, end)),
          .visible_pairs = pairs};
}

bool begins_with(std::span<const std::int32_t> all, std::span<const std::int32_t> start) {
  return start.size() < all.size() && std::equal(start.begin(), start.end(), all.begin());
}

}  // namespace

void TokenDecoder::forget() {
  const auto& model = engine_.options().model;
  seen_.clear();
  caches_.assign(static_cast<std::size_t>(model.layers), KvCache(model.context));
}

std::vector<double> TokenDecoder::feed(std::span<const std::int32_t> fresh) {
  const auto& run = engine_.run();
  const auto rows =
      rows_behind(run, static_cast<std::int64_t>(seen_.size()), fresh, engine_.options().model.window);
  const auto logits = engine_.stages().stages().front()->decode(run, rows, caches_);
  seen_.insert(seen_.end(), fresh.begin(), fresh.end());
  rows_run_ += static_cast<std::int64_t>(fresh.size());
  return to_host(logits, run.stream);
}

std::vector<double> TokenDecoder::next_logits(std::span<const std::int32_t> tokens) {
  FF_CHECK(!tokens.empty(), "logits come behind at least one token");
  const auto context = static_cast<std::size_t>(engine_.options().model.context);
  const auto window = tokens.last(std::min(tokens.size(), context));
  if (caches_.empty() || !begins_with(window, seen_)) forget();
  std::vector<double> logits;
  for (auto rest = window.subspan(seen_.size()); !rest.empty();) {
    const auto count = std::min(rest.size(), static_cast<std::size_t>(kRowsAtOnce));
    logits = feed(rest.first(count));
    rest = rest.subspan(count);
  }
  return logits;
}

std::vector<std::int32_t> generate(TokenDecoder& decoder, std::vector<std::int32_t> tokens,
                                   const GenerateOptions& options,
                                   const std::function<void(std::int32_t)>& emit) {
  for (std::int64_t n = 0; n < options.max_tokens; ++n) {
    const double u = philox_uniform(options.seed, hash_name("generate"), tokens.size());
    const auto token = sample(decoder.next_logits(tokens), options.sampling, u);
    if (token == options.stop) break;
    tokens.push_back(token);
    emit(token);
  }
  return tokens;
}

}  // namespace fivefold
