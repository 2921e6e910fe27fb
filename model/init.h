// Initial values. Element i of a parameter is f(seed, name, i) with i its index in the whole tensor, so every
// layout starts bitwise equal and no two parameters are alike.
#pragma once
#include "kernels/ops/random.h"
#include "model/config.h"
#include "model/placement.h"

namespace fivefold {

struct InitOptions {
  std::uint64_t seed = 0;
  // Moves one-dimensional parameters (norms from 1, biases from 0) by normal noise of this size: comparisons
  // of layouts set it so that a missing one shows. 0 in training.
  double one_dimensional_noise = 0;
};

// The op that writes the values of `box` of a parameter to `x`, as many elements, row-major.
// Matrices: normal(0, init_std); the products that write to the residual stream (attention out, mlp down):
// init_std divided by sqrt(2 layers) (Radford et al. 2019). Norm weights 1, biases 0.
RandomNormal initial_values(const Param& param, const ModelConfig& config, const InitOptions& options,
                            const Box& box, const Tensor& x);

}  // namespace fivefold
