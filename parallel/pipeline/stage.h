// What the executor drives: one virtual stage of the model on this rank.
#pragma once
#include "core/tensor.h"

namespace fivefold {

// What passes between stages of one micro-batch: the rows of the residual stream, or their gradient; and,
// where the model has terms that gather on the way (the balance loss of experts over a whole batch), a tensor
// beside them.
struct Carried {
  Carried() = default;
  Carried(Tensor carried_rows, Tensor carried_side = {})
      : rows(std::move(carried_rows)), side(std::move(carried_side)) {}
  Tensor rows;  // [T/tp, D], compute dtype
  Tensor side;  // accumulate dtype
};

// A parameter that the first and the last stage share keeps one gradient per use on either.
struct TiedGradients {
  Tensor own;    // of this stage's use
  Tensor other;  // of the other stage's use: filled by the exchange
};

// One at a time, in the order of the rank's list. Micro-batches of each act ascend from 0.
class PipelineStage {
 public:
  virtual ~PipelineStage() = default;
  // The previous stage's output in, nothing on the first stage. Returns this stage's, nothing on the last.
  virtual Carried forward(int micro_batch, Carried input) = 0;
  // The gradient of the output in, nothing on the last stage. Returns that of the input, nothing on the
  // first.
  virtual Carried backward(int micro_batch, Carried d_output) = 0;
  virtual Carried backward_input(int micro_batch, Carried d_output) = 0;
  virtual void backward_weight(int micro_batch) = 0;
  // Starts to sum over ranks the gradients that the micro-batch added, or that the step did (kWholeStep).
  virtual void reduce_grads(int micro_batch) = 0;
  virtual void unshard() {}
  virtual void reshard() {}
  // For schedules with an exchange: gradients of the whole step, of equal shape on first and last stage.
  virtual TiedGradients tied_gradients() { return {}; }
};

}  // namespace fivefold
