// `fivefold bench ops`: times every op on its bench cases.
#pragma once
#include <ostream>
#include <string>

#include "kernels/backend.h"
#include "kernels/cases/cases.h"

namespace fivefold {

struct BenchOpsOptions {
  std::string only;                          // a part of the op's name, empty: all ops
  std::string dtype;                         // f64, f32, bf16; empty: all
  double seconds = 0.1;                      // of timing a case
  cases::Scale scale = cases::Scale::bench;  // which shapes
  std::int64_t rotated_bytes = 0;  // runs take turns among sets of operands of so many bytes together, so
                                   // that what one reads has left the caches; 0: one set, as warm as it gets
};

// Prints the rate of a copy, then one line a case: op, parameters, dtype, milliseconds (median of seven
// samples by the stream's own clock), operations and bytes a second as the op counts them, and the bytes as a
// share of the copy's.
void bench_ops(const BenchOpsOptions& options, Backend& backend, Memory& memory, Stream& stream,
               std::ostream& out);

}  // namespace fivefold
