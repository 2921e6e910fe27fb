// Attention over sequences that are dealt to context ranks: a model calls it as if it had whole sequences.
//
// Bytes a rank sends per call, with n = cp, T rows here, s and a the sizes of an activation and of its
// accumulate dtype, K = Hk (hd + vd), and R the steps of the ring (n - 1, or less through a window: see
// ring_plan.h):
//   ring     forward R T (K s + 4)          backward R T (K s + 4) + R T K a
//   gather   forward (n-1) T (K s + 4)      backward (n-1) T K s + (n-1) T K a
//   ulysses  with H = Hq / n and P = lcm(Hk, n) / n:
//            forward (n-1) T (H (hd + vd) s + P (hd + vd) s + 12), backward (n-1) T (hd + vd) (H s + P g),
//            where g is s if n divides Hk and a otherwise
// context_traffic (traffic.h) has them as a function.
#pragma once
#include "parallel/context/attend.h"
#include "parallel/context/ring_plan.h"
#include "parallel/context/strategy.h"

namespace fivefold {

class ContextAttention {
 public:
  struct Saved {
    AttentionState state;
    Shape out;  // of the forward's result
    std::int64_t kv_heads = 0;
  };
  // `window`: keys that a row sees, itself included, at most; 0: all before it.
  ContextAttention(CpStrategy strategy, double scale, std::int64_t window)
      : strategy_(strategy), scale_(scale), window_(window) {}

  // q [T, Hq, hd], k [T, Hk, hd] and v [T, Hk, vd] of this rank's rows, equally many on all context ranks ->
  // [T, Hq, vd]. Both collective over cp; with one context rank both are the local op.
  Tensor forward(const Run& run, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionRows& rows,
                 Saved& saved) const;
  // Gradients in the activations' dtype, for a `d_out` of as many elements as the result; empties `saved`.
  AttentionGradients backward(const Run& run, const Tensor& d_out, Saved& saved) const;

 private:
  std::vector<RingStep> plan(const Communicator& cp, const AttentionRows& rows) const;

  CpStrategy strategy_;
  double scale_;
  std::int64_t window_;
};

}  // namespace fivefold
