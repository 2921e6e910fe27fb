// Steps of the optimizer's ops that must agree to the last bit, on any machine. Each check returns one line a
// fault.
#pragma once
#include "tests/kernels/op_checks.h"

namespace fivefold::cases {

// Twenty steps of AdamW on weights that are stored whole with a bf16 copy and in halves: the same copies and
// the same masters after each.
Faults check_split_steps(const Machine& machine);

// SquaredSum and AdamW over many parts of many sizes, more than a launch takes, and over one part after
// another.
Faults check_parts_alone(const Machine& machine);

}  // namespace fivefold::cases
