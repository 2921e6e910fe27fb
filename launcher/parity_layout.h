// Does a layout compute what one rank computes? The same program trains the same steps twice, side by side:
// on all ranks under the configuration's layout, and on world rank 0 alone, one sequence at a time and
// without recompute.
#pragma once
#include "launcher/parity.h"
#include "launcher/world.h"

namespace fivefold {

struct LayoutParity {
  std::vector<Comparison> comparisons;
  std::vector<std::string>
      culprits;  // of each kind of tensor the first out of tolerance: name, cuts, where it is worst
  bool ok() const;
};

// Trains `steps` steps of the configuration's batches (of data.train, or random tokens where it names none)
// from fresh weights at the constant rate optimizer.lr, with eps 1e-6 and one-dimensional parameters moved
// off their initial values, and compares losses, norms, every gradient of every step before clipping and
// every weight after the last, in the measures of DESIGN (parity.h). In f64 and f32 within fixed tolerances.
// In bf16 largest errors are multiples of how far one rank is in bf16 from one rank in f32 (a third run on
// world rank 0), and 2 is tolerated. Collective; world rank 0 gets the comparisons, the others empty ones.
// `spoil`, of tests: called with the layout's engine on every rank once a step's gradients are reduced.
LayoutParity compare_with_one_rank(const Config& config, RankContext& context, std::int64_t steps,
                                   const std::function<void(Engine&)>& spoil = {});

// Throws UserError for a model too large to train on one rank beside the layout.
void check_parity_size(const ModelConfig& model);

}  // namespace fivefold
