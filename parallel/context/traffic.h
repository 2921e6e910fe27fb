// Closed forms of what context parallel attention puts on the wire.
#pragma once
#include "core/types.h"
#include "parallel/context/strategy.h"

namespace fivefold {

// One attention layer of one micro-batch on one rank; heads are those of its tp rank.
struct ContextSizes {
  int cp = 1;
  std::int64_t rows = 0;      // here
  std::int64_t sequence = 0;  // rows of each sequence here; 0: unknown
  std::int64_t window = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  DType dtype = DType::f32;
};

// Bytes a rank sends, under the ring convention of the ledger.
struct ContextTraffic {
  std::int64_t forward = 0, backward = 0;
};
ContextTraffic context_traffic(CpStrategy strategy, const ContextSizes& sizes);

}  // namespace fivefold
