// Optimizer arithmetic: squared sums in blocks of a fixed size (so they do not depend on the number of
// threads), the shared factors of a step, and AdamW.
#include "kernels/cpu/accum.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {

namespace {

constexpr std::int64_t kBlock = 16384;  // elements

template <class T>
double squared_sum(const T* x, std::int64_t n) {
  return lane_sum<double>(n, [=](std::int64_t i) {
    const auto v = static_cast<double>(static_cast<Accum<T>>(x[i]));
    return v * v;
  });
}

template <class T>
struct AdamWStep {
  T lr, beta1, beta2, eps, decay, factor, correction1, correction2;  // correction = 1 / (1 - beta^t)

  explicit AdamWStep(const AdamW& op) {
    const double* control = op.control.data<double>();
    const double t = control[StepControl::kStep];
    lr = static_cast<T>(op.lr);
    beta1 = static_cast<T>(op.beta1);
    beta2 = static_cast<T>(op.beta2);
    eps = static_cast<T>(op.eps);
    decay = static_cast<T>(op.weight_decay);
    factor = static_cast<T>(control[StepControl::kFactor]);
    correction1 = static_cast<T>(1.0 / (1.0 - std::pow(op.beta1, t)));
    correction2 = static_cast<T>(1.0 / (1.0 - std::pow(op.beta2, t)));
  }

  void update(std::int64_t begin, std::int64_t end, T* p, const T* gradient, T* m, T* v) const {
    for_each_element(begin, end, [=, s = *this](std::int64_t i) {
      const T g = s.factor * gradient[i];
      m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
      v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
      const T direction = m[i] * s.correction1 / (std::sqrt(v[i] * s.correction2) + s.eps);
      p[i] -= s.lr * (direction + s.decay * p[i]);
    });
  }
};

template <class T>
void adamw(const AdamW& op, const CpuContext& ctx) {
  const AdamWStep<T> step(op);
  T *p = op.master.data<T>(), *m = op.m.data<T>(), *v = op.v.data<T>();
  const T* gradient = op.gradient.data<T>();
  bf16* compute = op.compute && op.compute.dtype() == DType::bf16 ? op.compute.data<bf16>() : nullptr;
  T* copy = op.compute && !compute ? op.compute.data<T>() : nullptr;
  parallel_for(ctx, op.master.count(), 2, [=](std::int64_t begin, std::int64_t end) {
    step.update(begin, end, p, gradient, m, v);
    if (compute)
      for_each_element(begin, end, [=](std::int64_t i) { compute[i] = bf16(static_cast<float>(p[i])); });
    if (copy) std::copy(p + begin, p + end, copy + begin);
  });
}

}  // namespace

void execute(const SquaredSum& op, const CpuContext& ctx) {
  const auto n = op.x.count(), blocks = ceil_div(n, kBlock);
  auto* partial = ctx.scratch.get<double>(blocks);
  with_float(op.x.dtype(), [&](auto zero) {
    const auto* x = op.x.data<decltype(zero)>();
    parallel_for(ctx, blocks, kBlock, [=](std::int64_t begin, std::int64_t end) {
      for (auto b = begin; b < end; ++b)
        partial[b] = squared_sum(x + b * kBlock, std::min(kBlock, n - b * kBlock));
    });
  });
  double& sum = op.sums.data<double>()[op.index];
  for (std::int64_t b = 0; b < blocks; ++b) sum += partial[b];
}

void execute(const StepControl& op, const CpuContext&) {
  const double* sums = op.sums.data<double>();
  double* control = op.control.data<double>();
  double total = 0;
  for (std::int64_t i = 0; i < op.sums.count(); ++i) total += sums[i];
  const bool finite = std::isfinite(total);
  const double norm = std::sqrt(total);
  control[StepControl::kNorm] = norm;
  control[StepControl::kFactor] = op.clip > 0 ? std::min(1.0, op.clip / (norm + 1e-6)) : 1.0;
  control[StepControl::kApply] = finite ? 1.0 : 0.0;
  control[StepControl::kStep] += finite ? 1.0 : 0.0;
  control[StepControl::kSkipped] += finite ? 0.0 : 1.0;
}

void execute(const AdamW& op, const CpuContext& ctx) {
  if (op.control.data<double>()[StepControl::kApply] == 0.0) return;
  if (op.master.dtype() == DType::f64) return adamw<double>(op, ctx);
  adamw<float>(op, ctx);
}

}  // namespace fivefold::cpu
