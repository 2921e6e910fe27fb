// Conversion in a host buffer, then one copy in stream order.
#include "core/transfer.h"

#include "core/copy.h"

namespace fivefold {

namespace {

// Nothing need be made ready for a tensor without bytes.
bool nowhere(const Tensor& t) { return t.device().kind == DeviceKind::none; }

Tensor staging(const Tensor& like) {
  CpuStream host;
  return empty(*make_cpu_memory(), like.shape(), like.dtype(), Tag::staging, host);
}

void move(const Tensor& dst, const Tensor& staged, Stream& stream) {
  copy_bytes(dst, staged, stream);
  stream.synchronize();
}

template <class T>
std::vector<double> widened(const Tensor& t) {
  std::vector<double> out(static_cast<std::size_t>(t.count()));
  const T* at = t.data<T>();
  for (auto& value : out) value = static_cast<double>(*at++);
  return out;
}

template <class T>
T narrowed(double value) {
  if constexpr (std::is_same_v<T, bf16>)
    return bf16(static_cast<float>(value));  // by way of f32
  else
    return static_cast<T>(value);
}

// with_float, and i16.
template <class F>
decltype(auto) with_number(DType dtype, F&& f) {
  return dtype == DType::i16 ? f(std::int16_t{}) : with_float(dtype, f);
}

}  // namespace

void write(const Tensor& dst, std::span<const double> values, Stream& stream) {
  FF_CHECK_EQ(static_cast<std::int64_t>(values.size()), dst.count());
  if (nowhere(dst)) return;
  const auto staged = staging(dst);
  with_number(dst.dtype(), [&]<class T>(T) {
    auto* out = staged.data<T>();
    for (double value : values) *out++ = narrowed<T>(value);
  });
  move(dst, staged, stream);
}

void write(const Tensor& dst, std::span<const std::int32_t> values, Stream& stream) {
  FF_CHECK_EQ(static_cast<std::int64_t>(values.size()), dst.count());
  if (nowhere(dst)) return;
  const auto staged = staging(dst);
  std::copy(values.begin(), values.end(), staged.data<std::int32_t>());
  move(dst, staged, stream);
}

std::vector<double> to_host(const Tensor& src, Stream& stream) {
  const auto staged = staging(src);
  move(staged, src, stream);
  if (src.dtype() == DType::i32) return widened<std::int32_t>(staged);
  return with_number(src.dtype(), [&]<class T>(T) { return widened<T>(staged); });
}

Tensor upload(Memory& memory, std::span<const double> values, Shape shape, DType dtype, Tag tag,
              Stream& stream) {
  auto out = empty(memory, shape, dtype, tag, stream);
  write(out, values, stream);
  return out;
}

Tensor upload(Memory& memory, std::span<const std::int32_t> values, Shape shape, Tag tag, Stream& stream) {
  auto out = empty(memory, shape, DType::i32, tag, stream);
  write(out, values, stream);
  return out;
}

}  // namespace fivefold
