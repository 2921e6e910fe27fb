// Optimizer arithmetic: squared sums in blocks of a fixed size (so they do not depend on the number of
// threads), the shared factors of a step, and AdamW.
#include "kernels/cpu/execute.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/stored_master.h"
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

// T: of the arithmetic.
template <class T>
struct AdamWStep {
  T lr, beta1, beta2, eps, decay, factor, correction1, correction2;  // correction = 1 / (1 - beta^t)

  AdamWStep(const AdamW& op, double weight_decay) {
    const double* control = op.control.data<double>();
    const double t = control[StepControl::kStep];
    lr = static_cast<T>(op.lr);
    beta1 = static_cast<T>(op.beta1);
    beta2 = static_cast<T>(op.beta2);
    eps = static_cast<T>(op.eps);
    decay = static_cast<T>(weight_decay);
    factor = static_cast<T>(control[StepControl::kFactor]);
    correction1 = static_cast<T>(1.0 / (1.0 - std::pow(op.beta1, t)));
    correction2 = static_cast<T>(1.0 / (1.0 - std::pow(op.beta2, t)));
  }

  // W: how the weight is stored. G, M: of gradient and moments.
  template <class W, class G, class M>
  void update(std::int64_t begin, std::int64_t end, W weight, const G* gradient, M* m, M* v) const {
    for_each_element(begin, end, [=, s = *this](std::int64_t i) {
      const T g = s.factor * static_cast<T>(gradient[i]);
      const T first = s.beta1 * static_cast<T>(m[i]) + (1 - s.beta1) * g;
      const T second = s.beta2 * static_cast<T>(v[i]) + (1 - s.beta2) * g * g;
      const T direction = first * s.correction1 / (std::sqrt(second * s.correction2) + s.eps);
      const T p = weight.number(i);
      weight.put(i, p - s.lr * (direction + s.decay * p));
      m[i] = static_cast<M>(first);
      v[i] = static_cast<M>(second);
    });
  }
};

// Calls f with the type of state that is stored in the arithmetic's type T, or in bf16 where that is float.
template <class T, class F>
void with_state(DType dtype, F&& f) {
  if constexpr (std::is_same_v<T, float>)
    if (dtype == DType::bf16) return f(bf16{});
  f(T{});
}

void update(const AdamW& op, const AdamW::Part& part, const CpuContext& ctx) {
  with_master(part.weight, [&]<class W>(const W& weight) {
    using T = typename W::Number;
    const AdamWStep<T> step(op, part.weight_decay);
    with_state<T>(part.gradient.dtype(), [&]<class G>(G) {
      with_state<T>(part.m.dtype(), [&]<class M>(M) {
        parallel_for(
            ctx, part.m.count(), 2,
            [=, gradient = part.gradient.data<G>(), m = part.m.data<M>(), v = part.v.data<M>()](
                std::int64_t begin, std::int64_t end) { step.update(begin, end, weight, gradient, m, v); });
      });
    });
  });
}

double squared_sum(const Tensor& x, const CpuContext& ctx) {
  const auto n = x.count(), blocks = ceil_div(n, kBlock);
  auto* partial = ctx.scratch.get<double>(blocks);
  with_float(x.dtype(), [&]<class T>(T) {
    parallel_for(ctx, blocks, kBlock, [=, x = x.data<T>()](std::int64_t begin, std::int64_t end) {
      for (auto b = begin; b < end; ++b)
        partial[b] = squared_sum(x + b * kBlock, std::min(kBlock, n - b * kBlock));
    });
  });
  double sum = 0;
  for (std::int64_t b = 0; b < blocks; ++b) sum += partial[b];
  return sum;
}

}  // namespace

void execute(const SquaredSum& op, const CpuContext& ctx) {
  for (const auto& part : op.parts) op.sums.data<double>()[part.index] += squared_sum(part.x, ctx);
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
  for (const auto& part : op.parts) update(op, part, ctx);
}

}  // namespace fivefold::cpu
