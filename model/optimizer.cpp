// The norm counts every distinct element once: each box is summed by its owner, into the parameter's place of
// one vector that is reduced over the world and then added up in parameter order.
#include "model/optimizer.h"

#include "core/transfer.h"

namespace fivefold {

Optimizer::Optimizer(const Run& run, AdamWOptions options, int parameter_count)
    : options_(options),
      sums_(run.zeros({parameter_count}, DType::f64, Tag::moments)),
      control_(run.zeros({StepControl::kCount}, DType::f64, Tag::moments)) {}

void Optimizer::global_norm(const Run& run, std::span<ShardedParam* const> params) {
  SquaredSum squares{.parts = {}, .sums = sums_};
  for (const auto* p : params)
    if (p->owned) squares.parts.push_back({.x = p->gradient, .index = p->param->index});
  run(Fill{.x = sums_, .value = 0});
  run(squares);
  run.mesh.world().all_reduce(sums_, Reduce::sum, run.stream).wait(run.stream);
  run(StepControl{.sums = sums_, .control = control_, .clip = options_.clip});
}

void Optimizer::step(const Run& run, std::span<ShardedParam* const> params, double lr) {
  global_norm(run, params);
  AdamW update{.parts = {},
               .control = control_,
               .lr = lr,
               .beta1 = options_.beta1,
               .beta2 = options_.beta2,
               .eps = options_.eps};
  const auto flat = [](const Tensor& t) { return t.view({t.count()}); };
  for (const auto* p : params)
    update.parts.push_back({.weight = p->stored(),
                            .gradient = flat(p->gradient),
                            .m = flat(p->m),
                            .v = flat(p->v),
                            .weight_decay = p->param->decay ? options_.weight_decay : 0});
  run(update);
}

StepReport report_of(std::span<const double> control) {
  FF_CHECK_EQ(static_cast<int>(control.size()), StepControl::kCount);
  return {.grad_norm = control[StepControl::kNorm],
          .applied = control[StepControl::kApply] != 0,
          .steps = static_cast<std::int64_t>(control[StepControl::kStep]),
          .skipped = static_cast<std::int64_t>(control[StepControl::kSkipped])};
}

StepReport Optimizer::report(const Run& run) const { return report_of(to_host(control_, run.stream)); }

void Optimizer::set_counts(const Run& run, std::int64_t steps, std::int64_t skipped) {
  std::vector<double> c(StepControl::kCount, 0.0);
  c[StepControl::kStep] = static_cast<double>(steps);
  c[StepControl::kSkipped] = static_cast<double>(skipped);
  write(control_, c, run.stream);
}

}  // namespace fivefold
