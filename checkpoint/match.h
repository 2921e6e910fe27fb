// Do a checkpoint and a model have the same tensors? Names in both directions, shapes, dtypes.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "checkpoint/load.h"

namespace fivefold {

// One rank's side of the comparison, as text: which tensors of the manifest it wants, and which it wants in
// vain. Throws UserError for a shape or a dtype that differs.
std::string match_text(const Manifest& manifest, std::span<const LocalTensor> wanted,
                       const LoadOptions& options);

// Puts all ranks' texts together. Throws UserError that lists the missing and the unexpected names unless
// they are allowed, or names an allowed one that nobody knows. Returns the missing ones, sorted. Gives the
// same on every rank.
std::vector<std::string> check_match(const Manifest& manifest, std::span<const std::string> texts,
                                     const LoadOptions& options);

}  // namespace fivefold
