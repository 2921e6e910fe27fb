// All pairs of floating dtypes from one loop.
#include "checkpoint/convert.h"

#include <cstring>

namespace fivefold {

namespace {

template <class From, class To>
void convert(const std::byte* in, std::byte* out, std::int64_t count) {
  const auto* from = reinterpret_cast<const From*>(in);
  auto* to = reinterpret_cast<To*>(out);
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<To, bf16>)
      to[i] = bf16(static_cast<float>(from[i]));
    else
      to[i] = static_cast<To>(from[i]);
  }
}

}  // namespace

void convert_elements(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count) {
  if (from == to) {
    if (count > 0) std::memcpy(out, in, static_cast<std::size_t>(count * size_of(from)));
    return;
  }
  if (!is_floating(from) || !is_floating(to))
    throw UserError(str("only f64, f32 and bf16 convert into each other, not ", from, " into ", to));
  with_float(from, [&](auto f) {
    with_float(to, [&](auto t) { convert<decltype(f), decltype(t)>(in, out, count); });
  });
}

}  // namespace fivefold
