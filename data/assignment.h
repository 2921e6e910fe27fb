// Which samples of a step belong to which data rank and micro-batch.
#pragma once
#include <cstdint>

namespace fivefold {

// Samples [first, first + count) of the run; count 0: an empty micro-batch.
struct SampleRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const SampleRange&) const = default;
};

// Micro-batches that every data rank runs per step: enough for the rank with most samples.
std::int64_t micro_batches_per_step(std::int64_t global_batch, std::int64_t data_ranks,
                                    std::int64_t micro_batch);

// Samples of micro-batch m in [0, micro_batches_per_step) on a data rank. A rank takes one contiguous block
// of the step, rank r from floor(r x global_batch / data_ranks); any number of ranks goes. Over all ranks and
// m every sample of [step_first_sample, step_first_sample + global_batch) comes exactly once.
SampleRange samples_of(std::int64_t step_first_sample, std::int64_t global_batch, std::int64_t data_rank,
                       std::int64_t data_ranks, std::int64_t micro_batch, std::int64_t m);

}  // namespace fivefold
