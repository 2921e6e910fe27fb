// The end of the last stage: final norm, vocabulary projection and cross entropy in chunks of rows, so that
// logits never exist whole. In training the chunk's gradients are made at once, inside the forward action:
// the loss scale is known before.
#pragma once
#include "model/norm_layer.h"
#include "parallel/tensor/sequence.h"

namespace fivefold {

struct LossRequest {
  Tensor loss;           // [1] f64, sum over targets added here
  double scale = 0;      // of the gradient: 1 / valid tokens of the whole step
  bool gradient = true;  // false: evaluation
};

class Head {
 public:
  struct Saved {
    NormLayer::Saved norm;
    Tensor d_normed;  // [T/tp, D]
  };
  // A tied weight's gradient goes to Param::tied_gradient: one buffer per use, added once before the
  // reduction.
  Head(NormLayer norm, Param* weight, std::int64_t chunk_rows)
      : norm_(std::move(norm)), weight_(weight), chunk_rows_(chunk_rows) {}
  void forward(const Run& run, Residual in, const TokenRows& rows, const LossRequest& request,
               Saved& saved) const;
  Tensor backward_input(const Run& run, Saved& saved) const;  // gradient of the stream, [T/tp, D]
  // This rank's columns of the logits of all rows, [T, V/tp]: generation and comparisons, where T is small.
  Tensor logits(const Run& run, Residual in) const;

 private:
  void chunk(const Run& run, const Tensor& x, const Tensor& targets, const LossRequest& request,
             const Tensor& dx) const;
  Tensor project(const Run& run, const Tensor& x) const;
  NormLayer norm_;
  Param* weight_;
  std::int64_t chunk_rows_;
};

}  // namespace fivefold
