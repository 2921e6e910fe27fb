// What a CUDA op needs besides its operands. Owned by the backend, so by one rank.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>

namespace fivefold::cuda {

class LtProducts;

// Blocks of device memory that only grow, one for each stream: room for an op's partial sums.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // `count` elements, 256-byte aligned, undefined contents, valid for work queued on `stream` until the next
  // call for that stream. An op asks once.
  template <class T>
  T* get(std::int64_t count, cudaStream_t stream) {
    return static_cast<T*>(reserve(count * static_cast<std::int64_t>(sizeof(T)), stream));
  }

 private:
  struct Block {
    void* data = nullptr;
    std::int64_t bytes = 0;
  };
  void* reserve(std::int64_t bytes, cudaStream_t stream);

  std::map<cudaStream_t, Block> blocks_;
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
