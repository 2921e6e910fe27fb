// From a sample's index in the run to rows for the model. Everything is a pure function of that index, so the
// resume state is one integer, the samples consumed, and no layout, micro-batch or number of ranks changes
// what a sample is.
#pragma once
#include <cstdint>
#include <vector>

#include "data/choices.h"
#include "data/data_set.h"
#include "data/micro_batch.h"
#include "data/mixture.h"
#include "data/order.h"

namespace fivefold {

struct SamplerOptions {
  std::uint64_t seed = 0;
  std::int64_t sequence = 0;  // tokens a sample trains on
  std::int64_t vocab = 0;     // of the model; 0: only the files' own
  Documents documents = Documents::mask;
  SampleOrder order = SampleOrder::shuffle;
};

// Where sample i of the run lies: tokens [sample x S, sample x S + S] of its source.
struct SamplePlace {
  std::int64_t source = 0;
  std::int64_t epoch = 0;  // of that source
  std::int64_t sample = 0;
  bool operator==(const SamplePlace&) const = default;
};

class Sampler {
 public:
  // Throws UserError where a source is shorter than sequence + 1 tokens or has a larger vocabulary than the
  // model.
  Sampler(std::vector<Source> sources, const SamplerOptions& options);

  const SamplerOptions& options() const { return options_; }
  const std::vector<Source>& sources() const { return sources_; }
  // Samples of one epoch of a source: (tokens - 1) / sequence, the remainder dropped.
  std::int64_t samples_in(std::int64_t source) const;
  // Samples of one pass over all sources.
  std::int64_t samples() const;
  SamplePlace locate(std::int64_t i) const;

  // `count` sequences: samples [first_sample, first_sample + real_count), then empty sequences of padding
  // rows. Throws UserError for ids outside the vocabulary.
  MicroBatch micro_batch(std::int64_t first_sample, std::int64_t count, std::int64_t real_count) const;
  // Sum of valid_targets over samples [first_sample, first_sample + count), without reading tokens where the
  // file has a document table. Divides a step's loss.
  std::int64_t valid_targets(std::int64_t first_sample, std::int64_t count) const;

 private:
  void append_sample(MicroBatch& batch, std::int64_t i, std::vector<std::int32_t>& ids,
                     std::vector<std::int64_t>& starts) const;
  // Starts inside the sample that cut it: indices in (begin, begin + S], relative to begin; none for join.
  void cuts_of(const SamplePlace& place, std::vector<std::int64_t>& cuts) const;

  std::vector<Source> sources_;
  SamplerOptions options_;
  Mixture mixture_;
};

}  // namespace fivefold
