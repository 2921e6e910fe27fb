// Keys and values of the rows that a sequence has been through, so that generation runs only its new rows.
#pragma once
#include <vector>

#include "model/qkv_split.h"

namespace fivefold {

// Of one attention layer. `capacity` rows of memory are taken with the first append.
class KvCache {
 public:
  explicit KvCache(std::int64_t capacity) : capacity_(capacity) {}
  // Keeps k and v of new rows (after positions) and returns the heads with those of all rows so far: q of the
  // new rows, k and v of every row. The rows' k_index has to name all of them.
  Qkv append(const Run& run, const Qkv& fresh);

 private:
  Tensor append(const Run& run, Tensor& kept, const Tensor& fresh) const;
  std::int64_t capacity_, rows_ = 0;
  Tensor k_, v_;  // [capacity, Hk/tp, hd]
};

// One a block.
using KvCaches = std::vector<KvCache>;

}  // namespace fivefold
