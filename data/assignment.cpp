#include "data/assignment.h"

#include <algorithm>

#include "core/error.h"
#include "core/types.h"

namespace fivefold {

std::int64_t micro_batches_per_step(std::int64_t global_batch, std::int64_t data_ranks,
                                    std::int64_t micro_batch) {
  FF_CHECK(global_batch >= 1 && data_ranks >= 1 && micro_batch >= 1, global_batch, ' ', data_ranks, ' ',
           micro_batch);
  return ceil_div(ceil_div(global_batch, data_ranks), micro_batch);
}

SampleRange samples_of(std::int64_t step_first_sample, std::int64_t global_batch, std::int64_t data_rank,
                       std::int64_t data_ranks, std::int64_t micro_batch, std::int64_t m) {
  FF_CHECK(data_rank >= 0 && data_rank < data_ranks, "data rank ", data_rank, " of ", data_ranks);
  FF_CHECK(m >= 0 && m < micro_batches_per_step(global_batch, data_ranks, micro_batch), "micro-batch ", m);
  const std::int64_t begin = data_rank * global_batch / data_ranks;
  const std::int64_t end = (data_rank + 1) * global_batch / data_ranks;
  const std::int64_t from = std::min(begin + m * micro_batch, end);
  return {step_first_sample + from, std::min(micro_batch, end - from)};
}

}  // namespace fivefold
