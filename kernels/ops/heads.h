// Rows of heads to and from parts that lie one after another, each with some of the heads of all rows: what
// an exchange of "all heads of my rows" for "my heads of all rows" sends and receives.
//
// P parts of n heads hold H heads m = P n / H times over; head j of part p is head (p n + j) / m of the rows.
#pragma once
#include "core/tensor.h"

namespace fivefold {

// parts[p, t, j] = rows[t, (p n + j) / m].
struct HeadsToParts {
  static constexpr std::string_view kName = "heads_to_parts";
  Tensor rows;   // [T, H, W]
  Tensor parts;  // [P, T, n, W], P n a multiple of H
  void check() const;
  double flops() const;
  double bytes() const;
};

// The adjoint: rows[t, h] = sum of the m places of head h in `parts`, in order of the parts, rounded once.
struct PartsToHeads {
  static constexpr std::string_view kName = "parts_to_heads";
  Tensor parts;  // [P, T, n, W] in the rows' dtype or its accumulate dtype
  Tensor rows;   // [T, H, W]
  void check() const;
  double flops() const;
  double bytes() const;
};

}  // namespace fivefold
