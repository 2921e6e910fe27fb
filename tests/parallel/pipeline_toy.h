// A stage small enough to check by hand: y = w x + s over whole numbers held in f64, so results are exact in
// any layout; a gradient also keeps a hash of the order in which micro-batches added to it.
#pragma once
#include <cstdint>
#include <map>

#include "parallel/pipeline/executor.h"

namespace fivefold {

struct ToyPlan {
  int stages = 1, micro_batches = 1;
  bool side = false;  // a count rides along, forwards and backwards
  bool train = true;
  int data = 0;                                                 // which part of the data
  std::int64_t rows(int m) const { return m % 4 < 2 ? 2 : 4; }  // B33: lengths change within a step
  double x(int m, std::int64_t i) const { return static_cast<double>((m + 2) * (i + 1) % 7 + data); }
  double target(int m, std::int64_t i) const { return static_cast<double>((m + 5) * (i + 3) % 5 - 2); }
  static double weight(int stage) { return stage % 3 == 1 ? -1 : stage % 5 == 2 ? 2 : 1; }
  std::vector<CarriedShape> shapes() const;
};

struct ToyResult {
  double loss = 0;          // last stage
  double gradient = 0;      // of w, over the step
  std::uint64_t order = 0;  // hash of (micro-batch, what it added), in order
  double forward_side = 0, backward_side = 0;
  double reduced = 0;  // gradient summed over data ranks, as the reductions saw it
  double tied = 0;     // first and last stage: own + other gradient after the exchange
  int most_held = 0;   // micro-batches between forward and weight gradient
  bool operator==(const ToyResult&) const = default;
};

// The same step without a pipeline, stage by stage in plain loops; `reduced`, `tied` and `most_held` stay 0.
std::map<int, ToyResult> toy_reference(const ToyPlan& plan);

class ToyStage : public PipelineStage {
 public:
  // Collectives over `data` stand in for those that real stages make inside every action.
  ToyStage(const Run& run, Communicator& data, const ToyPlan& plan, int stage);
  Carried forward(int micro_batch, Carried input) override;
  Carried backward(int micro_batch, Carried d_output) override;
  Carried backward_input(int micro_batch, Carried d_output) override;
  void backward_weight(int micro_batch) override;
  void reduce_grads(int micro_batch) override;
  TiedGradients tied_gradients() override { return {own_, other_}; }
  ToyResult result() const;

 protected:
  Tensor filled(Shape shape, double value) const;
  void meet();

  const Run& run_;
  Communicator& data_;
  ToyPlan plan_;
  int stage_;
  bool first_, last_;
  struct Saved {
    std::vector<double> x, d;
  };
  std::map<int, Saved> saved_;
  double unreduced_ = 0;
  Tensor own_, other_;  // [1]
  ToyResult result_;
};

}  // namespace fivefold
