// Sums, casts and fills.
#include "kernels/cpu/accum.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {

namespace {

// One rounding from any floating type to any other.
template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, From>)
    return x;
  else
    return static_cast<To>(
        static_cast<std::conditional_t<std::is_same_v<To, bf16>, float, To>>(static_cast<Accum<From>>(x)));
}

template <class To, class From>
void convert(const Convert& op, const CpuContext& ctx) {
  const From* x = op.x.data<From>();
  To* y = op.y.data<To>();
  parallel_for(ctx, op.x.count(), 1, [=, accumulate = op.accumulate](std::int64_t begin, std::int64_t end) {
    if (accumulate) {
      using A = std::conditional_t<std::is_same_v<From, double>, double, Accum<To>>;
      for_each_element(begin, end, [=](std::int64_t i) {
        y[i] = converted<To>(static_cast<A>(converted<Accum<To>>(y[i])) +
                             static_cast<A>(converted<Accum<From>>(x[i])));
      });
    } else {
      for_each_element(begin, end, [=](std::int64_t i) { y[i] = converted<To>(x[i]); });
    }
  });
}

}  // namespace

void execute(const Add& op, const CpuContext& ctx) {
  with_float(op.a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accum<T>;
    const T *a = op.a.data<T>(), *b = op.b.data<T>();
    T* out = op.out.data<T>();
    parallel_for(ctx, op.a.count(), 1, [=](std::int64_t begin, std::int64_t end) {
      for_each_element(begin, end, [=](std::int64_t i) {
        out[i] = static_cast<T>(static_cast<A>(a[i]) + static_cast<A>(b[i]));
      });
    });
  });
}

void execute(const Convert& op, const CpuContext& ctx) {
  with_float(op.x.dtype(), [&](auto from) {
    with_float(op.y.dtype(), [&](auto to) { convert<decltype(to), decltype(from)>(op, ctx); });
  });
}

void execute(const Fill& op, const CpuContext& ctx) {
  with_float(op.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* x = op.x.data<T>();
    const T value = converted<T>(op.value);
    parallel_for(ctx, op.x.count(), 1,
                 [=](std::int64_t begin, std::int64_t end) { std::fill(x + begin, x + end, value); });
  });
}

}  // namespace fivefold::cpu
