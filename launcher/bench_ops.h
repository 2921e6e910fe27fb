// `fivefold bench ops`: times every op on its bench cases.
#pragma once
#include <ostream>
#include <string>

#include "kernels/backend.h"

namespace fivefold {

struct BenchOpsOptions {
  std::string only;      // a part of the op's name, empty: all ops
  std::string dtype;     // f64, f32, bf16; empty: all
  double seconds = 0.1;  // of timing a case
};

// Prints one line a case: op, parameters, dtype, milliseconds (best of five rounds), GFLOP/s and GB/s as the
// op counts them. Operands are warm: small ones lie in the caches, as they do in a small model.
void bench_ops(const BenchOpsOptions& options, Backend& backend, Memory& memory, Stream& stream,
               std::ostream& out);

}  // namespace fivefold
