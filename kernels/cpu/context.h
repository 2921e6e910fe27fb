// What a CPU op needs besides its operands. Owned by the backend, so by one rank; ops of one backend never
// run at once.
#pragma once
#include <cstdlib>
#include <memory>

#include "core/types.h"

namespace fivefold::cpu {

class Products;

// A block of host memory that only grows: room for an op's partial sums.
class Scratch {
 public:
  // `count` elements, 64-byte aligned, undefined contents, valid until the next call. An op asks once.
  template <class T>
  T* get(std::int64_t count) {
    return reinterpret_cast<T*>(reserve(count * static_cast<std::int64_t>(sizeof(T))));
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::byte* reserve(std::int64_t bytes);

  std::unique_ptr<std::byte, Free> block_;
  std::int64_t bytes_ = 0;
};

struct CpuContext {
  int threads;               // of the rank
  std::int64_t thread_work;  // operations that are worth a thread of their own
  Scratch& scratch;
  Products& products;  // matrix products of plain blocks, see products.h
};

}  // namespace fivefold::cpu
