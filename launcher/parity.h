// Does this layout compute what a stored trajectory says? Every quantity of every step, every gradient, every
// weight.
#pragma once
#include <string>
#include <vector>

#include "launcher/reference.h"

namespace fivefold {

struct Comparison {
  std::string quantity;  // "loss", "grad norm", "logits", "gradients", "final weights"
  double largest = 0;    // error, in the measure of its tolerance
  double tolerance = 0;
  std::string worst;  // the first tensor (or step) out of tolerance, or where the largest error is
  bool ok() const { return largest <= tolerance; }  // false for NaN
};

// Keeps the largest error, and where it was: the first place out of tolerance once there is one. NaN counts
// as infinite.
void note(Comparison& c, double error, const std::string& where);

// Tolerances of the stored trajectories: how far plain f32 lands from them, with room; ten times tighter in
// f64, where the loss itself was still made in f32.
struct ReferenceTolerances {
  double loss, grad_norm, logits, gradients, weights;
  double gradient_floor;  // gradients are relative to max(largest element of the tensor, floor x grad norm)
};
ReferenceTolerances reference_tolerances(DType dtype);

// Trains the reference's steps on `engine` (made for its model and optimizer) from its weights and compares.
// Loss errors are absolute, the norm's relative, logits relative to the largest; weights relative to
// max(largest element, sum of the learning rates). Collective; every rank returns the same.
std::vector<Comparison> compare_with_reference(Engine& engine, const Reference& reference,
                                               std::int64_t micro_batch);

// A table of the comparisons.
std::string to_text(const std::vector<Comparison>& comparisons);

}  // namespace fivefold
