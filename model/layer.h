// What a layer of a stage is. Layers are immutable while they run; all state of a micro-batch is in Saved, a
// value that the stage owns, so any number of micro-batches may be in flight and the weight step may come
// much later than the input step.
#pragma once
#include <concepts>

#include "model/rows.h"
#include "parallel/run.h"

namespace fivefold {

// The stream's value: x + delta.
inline Tensor summed(const Run& run, const Residual& stream) {
  if (!stream.delta) return stream.x;
  auto out = run.activation(stream.x.shape());
  run(Add{.a = stream.x, .b = stream.delta, .out = out});
  return out;
}

template <class L>
concept BlockLayer = requires(const L& layer, const Run& run, Residual in, const Tensor& dy,
                              const TokenRows& rows, typename L::Saved& saved) {
  { layer.forward(run, in, rows, saved) } -> std::same_as<Residual>;
  // d (x + delta of the output) -> d (x + delta of the input)
  { layer.backward_input(run, dy, rows, saved) } -> std::same_as<Tensor>;
  // Adds into Param::gradient, then empties Saved.
  { layer.backward_weight(run, saved) } -> std::same_as<void>;
  // Selective recompute: what is cheap to make again is dropped after forward and made again before backward.
  { layer.forget(saved) } -> std::same_as<void>;
  { layer.restore(run, saved) } -> std::same_as<void>;
};

}  // namespace fivefold
