// Matrix products by cuBLASLt. The plan of a product (descriptors and one of the algorithms that the library
// proposes) is kept by its shape, types and alignment, so a step asks the library nothing that it asked
// before.
#pragma once
#include <array>
#include <map>
#include <memory>

#include "kernels/cuda/context.cuh"
#include "kernels/cuda_backend.h"
#include "kernels/ops/dense.h"

namespace fivefold::cuda {

class LtProducts {
 public:
  // Of the current device. The library works in `workspace`, which outlives this.
  LtProducts(Scratch& workspace, ProductChoice choice);
  ~LtProducts();

  // Queues the product and returns true, or returns false where the library has no way to do it as asked: no
  // inner dimension, a bias in another dtype than c's or off an address of 16 bytes, f64 with a bias.
  bool multiply(const Gemm& op, cudaStream_t stream);

 private:
  struct Library;
  struct Plan;
  using Key = std::array<std::int64_t, 11>;
  Plan& plan_for(const Gemm& op, void* workspace, cudaStream_t stream);

  std::unique_ptr<Library> library_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
  Scratch& workspace_;
  ProductChoice choice_;
};

// The same product by a kernel of our own: any shapes, dtypes and addresses.
void multiply_in_tiles(const Gemm& op, cudaStream_t stream);

// Products of groups on the tensor cores of Hopper, or false where the operands are not bf16, rows or
// addresses are no multiples of 16 bytes, or c = a b has an inner size that is no multiple of 64.
bool multiply_groups_wide(const GroupedGemm& op, cudaStream_t stream);

}  // namespace fivefold::cuda
