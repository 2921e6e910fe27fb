// Runs the trajectory and measures.
#include "launcher/parity.h"

#include <cmath>
#include <cstdio>

#include "core/transfer.h"
#include "launcher/batches.h"
#include "launcher/model_state.h"

namespace fivefold {

namespace {

// Errors of all parameters, measured by each rank on its own boxes and joined over the world.
class TensorComparison {
 public:
  TensorComparison(Engine& engine, const Reference& reference, const std::string& prefix)
      : engine_(engine),
        stored_(fs_, reference.dir / "reference.safetensors", reference.model, prefix, HfExperts::together),
        errors_(static_cast<std::size_t>(engine.table().params.size()), 0.0) {}

  // `scale_floor`: errors are relative to max(largest element of the stored tensor, scale_floor).
  void compare(Tensor ShardedParam::*member, double scale_floor) {
    for (const auto* p : engine_.params()) {
      const auto theirs = read(p->param->name, p->param->storage_box);
      const auto whole_tensor = read(p->param->name, whole(p->param->global));
      double scale = scale_floor;
      for (double v : whole_tensor) scale = std::max(scale, std::abs(v));
      const auto ours = to_host(p->in_full(engine_.run(), member), engine_.run().stream);
      auto& error = errors_[static_cast<std::size_t>(p->param->index)];
      for (std::size_t i = 0; i < ours.size(); ++i)
        error = worse(error, std::abs(ours[i] - theirs[i]) / scale);
    }
  }

  void report(Comparison& c) {
    const auto& run = engine_.run();
    auto all = upload(run.memory, std::span<const double>(errors_),
                      {static_cast<std::int64_t>(errors_.size())}, DType::f64, Tag::workspace, run.stream);
    engine_.mesh().world().all_reduce(all, Reduce::max, run.stream).wait(run.stream);
    const auto values = to_host(all, run.stream);
    for (const auto& p : engine_.table().params) note(c, values[static_cast<std::size_t>(p.index)], p.name);
  }

 private:
  static double worse(double a, double b) { return std::isnan(b) ? INFINITY : std::max(a, b); }
  std::vector<double> read(const std::string& name, const Box& box) const {
    CpuStream host;
    const auto t = fivefold::empty(*make_cpu_memory(), box.shape(), DType::f64, Tag::staging, host);
    stored_.read(name, box, t);
    return to_host(t, host);
  }

  PosixFileSystem fs_;
  Engine& engine_;
  HfWeights stored_;
  std::vector<double> errors_;
};

std::vector<MicroBatch> batches_of(const Reference& r, const BatchPlan& plan, std::int64_t step) {
  std::vector<MicroBatch> out;
  const auto count = micro_batches_per_step(plan.global_batch, plan.data_ranks, plan.micro_batch);
  for (std::int64_t m = 0; m < count; ++m) {
    const auto s = samples_of(0, plan.global_batch, plan.data_rank, plan.data_ranks, plan.micro_batch, m);
    out.push_back(fitted(reference_batch(r, step, s.first, s.count, plan.micro_batch), plan));
  }
  return out;
}

// The largest value of all ranks.
double largest_of_world(Engine& engine, double value) {
  const auto& run = engine.run();
  const auto all =
      upload(run.memory, std::span<const double>(&value, 1), {1}, DType::f64, Tag::workspace, run.stream);
  engine.mesh().world().all_reduce(all, Reduce::max, run.stream).wait(run.stream);
  return to_host(all, run.stream)[0];
}

// Largest difference of the logits, relative to the largest stored one. Each rank has some rows of a
// sequence, which their indices name, and perhaps padding behind it.
double logits_error(Engine& engine, const Reference& r, const BatchPlan& plan) {
  double largest = 0, error = 0;
  for (double v : r.logits) largest = std::max(largest, std::abs(v));
  const auto vocab = static_cast<std::size_t>(r.model.vocab);
  for (std::int64_t b = 0; b < r.batch; ++b) {
    const auto batch = fitted(reference_batch(r, 0, b, 1, 1), plan);
    const auto ours = engine.logits(batch);
    for (std::size_t row = 0; row < batch.q_index.size(); ++row) {
      if (batch.q_index[row] >= r.sequence) continue;
      const auto* theirs = &r.logits[static_cast<std::size_t>(b * r.sequence + batch.q_index[row]) * vocab];
      for (std::size_t i = 0; i < vocab; ++i) {
        const double d = std::abs(ours[row * vocab + i] - theirs[i]) / largest;
        error = std::isnan(d) ? INFINITY : std::max(error, d);
      }
    }
  }
  return largest_of_world(engine, error);
}

}  // namespace

void note(Comparison& c, double error, const std::string& where) {
  if (std::isnan(error)) error = INFINITY;
  if (c.ok() && (c.worst.empty() || error > c.largest)) c.worst = where;
  c.largest = std::max(c.largest, error);
}

ReferenceTolerances reference_tolerances(DType dtype) {
  if (dtype == DType::f64)
    return {.loss = 2e-6,
            .grad_norm = 2e-6,
            .logits = 2e-6,
            .gradients = 2e-6,
            .weights = 2e-5,
            .gradient_floor = 1e-6};
  return {.loss = 1e-5,
          .grad_norm = 2e-5,
          .logits = 2e-5,
          .gradients = 2e-5,
          .weights = 2e-4,
          .gradient_floor = 1e-4};
}

std::vector<Comparison> compare_with_reference(Engine& engine, const Reference& r, std::int64_t micro_batch) {
  const auto t = reference_tolerances(engine.options().dtype);
  Comparison logits{"logits of step 0", 0, t.logits, {}}, loss{"loss of each step", 0, t.loss, {}};
  Comparison norm{"gradient norm of each step", 0, t.grad_norm, {}},
      gradients{"gradients of step 0", 0, t.gradients, {}};
  Comparison weights{"weights after the last step", 0, t.weights, {}};
  engine.initialize({});
  load_hf_weights(engine, r.dir);
  masters_changed(engine);
  const auto plan = plan_batches(engine.mesh(), r.batch, micro_batch, engine.options().model.window,
                                 engine.options().stage.cp_strategy);
  note(logits, logits_error(engine, r, plan), "step 0");
  for (std::int64_t step = 0; step < r.steps; ++step) {
    const auto at = static_cast<std::size_t>(step);
    const auto batches = batches_of(r, plan, step);
    const auto result = engine.accumulate(batches, engine.agree(valid_targets(batches), false).sum);
    if (step == 0) {
      TensorComparison compare(engine, r, "grad.");
      compare.compare(&ShardedParam::gradient, t.gradient_floor * r.grad_norm[0]);
      compare.report(gradients);
    }
    const auto report = engine.update(result, r.lr);
    note(loss, std::abs(result.mean() - r.loss[at]), str("step ", step));
    note(norm, std::abs(report.grad_norm - r.grad_norm[at]) / r.grad_norm[at], str("step ", step));
  }
  TensorComparison compare(engine, r, "final.");
  compare.compare(&ShardedParam::master, r.lr * static_cast<double>(r.steps));
  compare.report(weights);
  return {logits, loss, norm, gradients, weights};
}

std::string to_text(const std::vector<Comparison>& comparisons) {
  std::string out;
  for (const auto& c : comparisons) {
    char line[256];
    std::snprintf(line, sizeof line, "%-28s largest error %.2e  tolerance %.0e  %s  (%s)\n",
                  c.quantity.c_str(), c.largest, c.tolerance, c.ok() ? "ok" : "OUT OF TOLERANCE",
                  c.worst.c_str());
    out += line;
  }
  return out;
}

}  // namespace fivefold
