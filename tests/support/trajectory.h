// A few training steps of a small model under any layout, remembered whole: what layouts, transports and
// resumed runs are compared by. A layout that is new joins the tables of the tests as one more Layout.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/batches.h"
#include "launcher/engine.h"
#include "parallel/comm/ledger.h"

namespace fivefold::test {

// How the ranks share the work. Everything here must leave the numbers as they are.
struct Layout {
  MeshShape mesh{};
  std::int64_t micro_batch = 1;
  StageOptions stage{
      .recompute = RecomputePolicy::none, .zero = {}, .loss_rows = 7};  // 7 divides no number of rows
  CpStrategy strategy = CpStrategy::ring;
  PipelineOptions pipeline{};
};
std::string to_string(const Layout& layout);

// What is trained. Sample i is a pure function of i: random tokens in documents of random lengths.
struct Problem {
  ModelConfig model;
  DType dtype = DType::f64;
  Device device;  // of every rank
  std::int64_t global_batch = 6, sequence = 12, steps = 3;
  bool documents = true;  // masked from each other; false: each sample is one
  // False where a position must not be a target, beyond what documents say.
  std::function<bool(std::int64_t sample, std::int64_t position)> trained;
  AdamWOptions optimizer{.eps = 1e-6, .clip = 0.5};
  double lr = 1e-2;
  InitOptions init{.seed = 11, .one_dimensional_noise = 0.1};
};

// Small shapes that divide by nothing: llama (GQA, untied head, RMSNorm, rotary), gpt2 (tied head, biases,
// LayerNorm, learned positions), qwen3 (per-head QK-norm, MQA, tied head, a window).
ModelConfig small_llama();
ModelConfig small_gpt2();
ModelConfig small_qwen3();

// Samples [first, first + count) as a micro-batch of `sequences`; the rest is padding.
MicroBatch sample_batch(const Problem& problem, std::int64_t first, std::int64_t count,
                        std::int64_t sequences);
// The micro-batches of one rank in one step.
std::vector<MicroBatch> problem_batches(const Problem& problem, const BatchPlan& plan, std::int64_t step);

using Tensors = std::map<std::string, std::vector<double>>;  // whole tensors by name, row-major

struct Trajectory {
  std::vector<double> loss, grad_norm;  // per step; the norm before clipping
  std::vector<std::int64_t> valid_tokens;
  std::vector<StepReport> reports;
  std::vector<Tensors> gradients;  // per step, reduced, before clipping
  Tensors weights, m, v;           // after the last step
};

// On the rank of `transport`. Collective; every rank gets the whole trajectory. Fails unless every element of
// every tensor is held by some rank and all that hold it have the same bits.
Trajectory train(Transport& transport, const std::vector<HostSlot>& slots, const Problem& problem,
                 const Layout& layout);
// On thread ranks, one for each place of the mesh. `ledgers`: what each rank launched.
Trajectory train(const Problem& problem, const Layout& layout,
                 std::vector<std::vector<LedgerRecord>>* ledgers = nullptr);
// Runs `body` on thread ranks, one for each place of the mesh, each with an engine of fresh weights.
void on_engines(const Problem& problem, const Layout& layout,
                const std::function<void(Engine& engine, const BatchPlan& plan)>& body);
// The whole tensors of which the ranks hold boxes. Collective; as train.
Tensors gather(Engine& engine, Tensor ShardedParam::*member);
// What a run goes on from. Collective.
struct State {
  Tensors weights, masters, m, v;
};
State state_of(Engine& engine);

// Largest differences, each in its measure: losses absolute, norms relative, gradients relative to
// max(largest element of the tensor, 1e-6 x norm of the step; 1e-4 x outside f64), weights to max(largest
// element, sum of the learning rates), moments like gradients.
struct Distance {
  double loss = 0, grad_norm = 0, gradients = 0, weights = 0, moments = 0;
  std::string worst;  // the tensor and step of the largest gradient difference
  double largest() const;
};
Distance distance(const Trajectory& a, const Trajectory& b, const Problem& problem);
std::string to_string(const Distance& distance);

// One number for all of a trajectory's bits.
std::uint64_t hash_of(const Trajectory& trajectory);

}  // namespace fivefold::test
