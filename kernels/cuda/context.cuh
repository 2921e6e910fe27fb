// What a CUDA op needs besides its operands. Owned by the backend, so by one rank.
#pragma once
#include <cuda_runtime_api.h>

#include <map>

#include "core/memory.h"

namespace fivefold::cuda {

class LtProducts;

// Blocks of device memory that only grow, one for each stream: room for an op's partial sums and for what the
// matrix library works in.
class Scratch {
 public:
  explicit Scratch(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // The stream of the ops that follow.
  void work_on(Stream& stream) { home_ = &stream; }
  // `count` elements, 256-byte aligned, undefined contents, valid for work queued on `stream` until the next
  // call for that stream. An op asks once.
  template <class T>
  T* get(std::int64_t count, cudaStream_t stream) {
    return static_cast<T*>(reserve(count * static_cast<std::int64_t>(sizeof(T)), stream));
  }

 private:
  void* reserve(std::int64_t bytes, cudaStream_t stream);

  std::shared_ptr<Memory> memory_;
  Stream* home_ = nullptr;
  std::map<cudaStream_t, std::shared_ptr<Buffer>> blocks_;
};

struct CudaContext {
  cudaStream_t stream;
  Scratch& scratch;
  LtProducts& products;  // matrix products of the library, see products.cuh
  template <class T>
  T* room(std::int64_t count) const {
    return scratch.get<T>(count, stream);
  }
};

}  // namespace fivefold::cuda
