// Where a step's time goes: a backend around a backend that times every op by name.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "kernels/backend.h"

namespace fivefold {

struct OpTime {
  std::int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
};

// Sums by op; products also by their sizes, since one name covers very different work.
using OpProfile = std::map<std::string, OpTime>;

// Runs every op on `inner` and adds its time to `profile`, which outlives the backend. The stream is drained
// before and after each op: times are exact, and nothing overlaps while they are taken.
std::unique_ptr<Backend> make_profiling_backend(std::unique_ptr<Backend> inner, OpProfile& profile);

// One line an op, longest first: calls, milliseconds and share of `step_seconds`, GFLOP/s, GB/s, each for one
// of `steps` steps; then what the step spent outside ops.
std::string to_text(const OpProfile& profile, std::int64_t steps, double step_seconds);

}  // namespace fivefold
