// Block by block through an accumulator on the stack, so that bf16 keeps its f32 sum and `out` may alias an
// input.
#include "parallel/comm/rank_sum.h"

namespace fivefold {

namespace {

constexpr std::int64_t kBlock = 2048;

template <class T>
struct Accumulator {
  using type = T;
};
template <>
struct Accumulator<bf16> {
  using type = float;
};
template <>
struct Accumulator<std::int32_t> {
  using type = std::uint32_t;  // wraps without undefined behaviour; max compares as signed
};

template <class T, class A>
void combine(A* sum, const T* x, std::int64_t n, Reduce op) {
  if (op == Reduce::sum) {
    for (std::int64_t i = 0; i < n; ++i) sum[i] += static_cast<A>(x[i]);
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    for (std::int64_t i = 0; i < n; ++i) sum[i] = static_cast<A>(std::max(static_cast<T>(sum[i]), x[i]));
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto value = static_cast<A>(x[i]);
      sum[i] = value > sum[i] || value != value ? value : sum[i];
    }
  }
}

template <class T>
void reduce(std::byte* out, std::span<const std::byte* const> in, std::int64_t count, Reduce op) {
  using A = typename Accumulator<T>::type;
  std::array<A, kBlock> sum;
  auto* y = reinterpret_cast<T*>(out);
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const auto n = std::min(kBlock, count - begin);
    const auto* first = reinterpret_cast<const T*>(in[0]) + begin;
    for (std::int64_t i = 0; i < n; ++i) sum[static_cast<std::size_t>(i)] = static_cast<A>(first[i]);
    for (const auto* other : in.subspan(1))
      combine(sum.data(), reinterpret_cast<const T*>(other) + begin, n, op);
    for (std::int64_t i = 0; i < n; ++i) y[begin + i] = static_cast<T>(sum[static_cast<std::size_t>(i)]);
  }
}

}  // namespace

void reduce_in_rank_order(std::byte* out, std::span<const std::byte* const> in, DType dtype,
                          std::int64_t count, Reduce op) {
  if (dtype == DType::f64) return reduce<double>(out, in, count, op);
  if (dtype == DType::f32) return reduce<float>(out, in, count, op);
  if (dtype == DType::bf16) return reduce<bf16>(out, in, count, op);
  FF_CHECK_EQ(dtype, DType::i32, "no sum for this dtype");
  reduce<std::int32_t>(out, in, count, op);
}

}  // namespace fivefold
