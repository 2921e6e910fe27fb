// A build without CUDA: no CUDA backend.
#include "kernels/cuda_backend.h"

namespace fivefold {

std::unique_ptr<Backend> make_cuda_backend(int, std::shared_ptr<Memory>, ProductChoice) {
  throw Error("this build has no CUDA: build where a CUDA toolkit is found, or use train.device=cpu");
}

}  // namespace fivefold
