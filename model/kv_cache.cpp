// Copies into rows that were reserved; what is returned are views of them.
#include "model/kv_cache.h"

namespace fivefold {

Tensor KvCache::append(const Run& run, Tensor& kept, const Tensor& fresh) const {
  Shape shape = fresh.shape();
  const auto end = rows_ + shape[0];
  shape[0] = capacity_;
  FF_CHECK(end <= capacity_, "a cache of ", capacity_, " rows has no room for row ", end);
  if (!kept) kept = run.activation(shape);
  run(Convert{.x = fresh, .y = kept.rows(rows_, end)});
  return kept.rows(0, end);
}

Qkv KvCache::append(const Run& run, const Qkv& fresh) {
  const Qkv all{fresh.q, append(run, k_, fresh.k), append(run, v_, fresh.v)};
  rows_ += fresh.k.dim(0);
  return all;
}

}  // namespace fivefold
