// The sums that context_attention.h states.
#include "parallel/context/traffic.h"

#include "parallel/context/ring_plan.h"
#include "parallel/context/ulysses.h"

namespace fivefold {

namespace {

constexpr std::int64_t kIndexBytes = 4;

ContextTraffic ring_traffic(const ContextSizes& z) {
  const auto steps =
      static_cast<std::int64_t>(ring_plan(z.cp, 0, window_reach(z.window, z.sequence / 2, z.cp)).size() - 1);
  const auto elements = z.kv_heads * (z.head_dim + z.value_dim);
  const auto keys = steps * z.rows * (elements * size_of(z.dtype) + kIndexBytes);
  return {keys, keys + steps * z.rows * elements * size_of(accum_dtype(z.dtype))};
}

ContextTraffic gather_traffic(const ContextSizes& z) {
  const auto rows = (z.cp - 1) * z.rows, elements = z.kv_heads * (z.head_dim + z.value_dim);
  const auto keys = rows * elements * size_of(z.dtype);
  return {keys + rows * kIndexBytes, keys + rows * elements * size_of(accum_dtype(z.dtype))};
}

ContextTraffic ulysses_traffic(const ContextSizes& z) {
  const auto rows = (z.cp - 1) * z.rows, share = ulysses_kv_heads(z.kv_heads, z.cp);
  const auto dims = z.head_dim + z.value_dim, queries = z.heads / z.cp * dims * size_of(z.dtype);
  const auto sums = share * z.cp == z.kv_heads ? z.dtype : accum_dtype(z.dtype);
  return {rows * (queries + share * dims * size_of(z.dtype) + 3 * kIndexBytes),
          rows * (queries + share * dims * size_of(sums))};
}

}  // namespace

ContextTraffic context_traffic(CpStrategy strategy, const ContextSizes& sizes) {
  if (sizes.cp == 1) return {};
  switch (strategy) {
    case CpStrategy::ring:
      return ring_traffic(sizes);
    case CpStrategy::gather:
      return gather_traffic(sizes);
    case CpStrategy::ulysses:
      return ulysses_traffic(sizes);
  }
  return {};
}

}  // namespace fivefold
