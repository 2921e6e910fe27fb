// From packed qkv rows to attention output and back.
//
// Mask: two integers per query row and one per key, i32, in the flattened micro-batch (sequence b starts at
// b*S). Key j is visible to row i iff first_visible[i] <= k_index[j] <= q_index[i]. That covers causal,
// sliding window, packed documents and every chunk of a ring. Kernels skip tiles by the min and max of both
// sides. Rows that see nothing give 0.
//
// bf16 rounding points: the probabilities P (before P V) and dS (before its two products) round to bf16;
// everything else is f32.
#pragma once
#include "core/tensor.h"

namespace fivefold {

enum class RopeStyle : std::uint8_t { half, interleaved };

// packed rows [T, (Hq + 2 Hk) * hd] -> q, k, v apart, with optional per-head RMS norm of q and k, then
// optional rotary embedding. Rotary turns the first R dims of a head: half style pairs (i, i + R/2),
// interleaved style pairs (2i, 2i + 1); (a, b) -> (a cos - b sin, b cos + a sin) with cos, sin from row
// position[t] of the tables (Su et al. 2021).
struct SplitQkvForward {
  static constexpr std::string_view kName = "split_qkv_forward";
  Tensor packed;              // [T, (Hq + 2 Hk) * hd]
  Tensor q;                   // [T, Hq, hd]
  Tensor k;                   // [T, Hk, hd]
  Tensor v;                   // [T, Hk, hd]
  Tensor q_weight, k_weight;  // [hd] per-head norm, both or none; in packed's dtype or its accumulate dtype
  Tensor q_rstd, k_rstd;      // [T, Hq], [T, Hk] accumulate dtype, with the norm
  Tensor position;            // [T] i32, or none: no rotary
  Tensor cos, sin;            // [P, R/2] accumulate dtype
  RopeStyle style = RopeStyle::half;
  double eps = 1e-6;
  void check() const;
  double flops() const;
  double bytes() const;
};

struct SplitQkvBackward {
  static constexpr std::string_view kName = "split_qkv_backward";
  Tensor dq, dk, dv;  // [T, Hq, hd], [T, Hk, hd], [T, Hk, hd]
  Tensor packed;      // forward's input; needed with the norm only
  Tensor q_weight, k_weight, q_rstd, k_rstd;
  Tensor position, cos, sin;
  Tensor d_packed;                // [T, (Hq + 2 Hk) * hd]
  Tensor d_q_weight, d_k_weight;  // [hd] accumulate dtype, added to, with the norm
  RopeStyle style = RopeStyle::half;
  void check() const;
  double flops() const;
  double bytes() const;
};

// Rotary embedding alone, x -> y (may be the same memory); `inverse` turns back, which is also the backward
// pass.
struct Rotary {
  static constexpr std::string_view kName = "rotary";
  Tensor x, y;      // [T, H, hd]
  Tensor position;  // [T] i32
  Tensor cos, sin;  // [P, R/2] accumulate dtype
  RopeStyle style = RopeStyle::half;
  bool inverse = false;
  void check() const;
  double flops() const;
  double bytes() const;
};

// out = softmax(scale * q k^T + mask) v, head h of q with head h / (Hq/Hk) of k and v; lse = log sum exp of
// the scaled scores. Rows that see nothing: out 0, lse -inf.
struct AttentionForward {
  static constexpr std::string_view kName = "attention_forward";
  Tensor q;                       // [Tq, Hq, hd]
  Tensor k;                       // [Tk, Hk, hd]
  Tensor v;                       // [Tk, Hk, vd]
  Tensor q_index, first_visible;  // [Tq] i32
  Tensor k_index;                 // [Tk] i32
  Tensor out;  // [Tq, Hq, vd] in q's dtype or its accumulate dtype (ring: partial results stay f32)
  Tensor lse;  // [Tq, Hq] accumulate dtype
  double scale = 1.0;
  double visible_pairs = 0;  // for flops(): number of (query, key) pairs seen per head
  void check() const;
  double flops() const;
  double bytes() const;
};

// Gradients by recomputing the probabilities from lse. dq, dk, dv are written, not added to.
struct AttentionBackward {
  static constexpr std::string_view kName = "attention_backward";
  Tensor q, k, v, q_index, first_visible, k_index, out, lse;  // as in the forward
  Tensor d_out;                                               // [Tq, Hq, vd]
  Tensor dq, dk, dv;  // shapes of q, k, v; their dtype or the accumulate dtype (ring: partial sums stay f32)
  double scale = 1.0;
  double visible_pairs = 0;
  void check() const;
  double flops() const;  // 2.5 x the forward's
  double bytes() const;
};

// Merges a second partial result over other keys into the first (ring attention), in max form:
// m = max(lse, lse2), w = exp(lse - m) ...; -inf with -inf stays 0 and -inf. `out` accumulates in the
// accumulate dtype.
struct AttentionMerge {
  static constexpr std::string_view kName = "attention_merge";
  Tensor out;        // [T, H, vd] accumulate dtype, in and out
  Tensor lse;        // [T, H] accumulate dtype, in and out
  Tensor other_out;  // [T, H, vd] any floating dtype
  Tensor other_lse;  // [T, H]
  void check() const;
  double flops() const;
  double bytes() const;
};

}  // namespace fivefold
