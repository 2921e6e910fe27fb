#include "data/stored_ids.h"

#include <utility>

#include "core/error.h"

namespace fivefold {
namespace {

// Calls f(T{}) with the stored type.
template <class F>
decltype(auto) with_id_type(IdKind kind, F&& f) {
  switch (kind) {
    case IdKind::u8:
      return f(std::uint8_t{});
    case IdKind::i8:
      return f(std::int8_t{});
    case IdKind::u16:
      return f(std::uint16_t{});
    case IdKind::i16:
      return f(std::int16_t{});
    case IdKind::u32:
      return f(std::uint32_t{});
    case IdKind::i32:
      return f(std::int32_t{});
    case IdKind::i64:
      return f(std::int64_t{});
  }
  fail(__FILE__, __LINE__, "unknown id kind", "");
}

template <class T>
void widen(const std::byte* from, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T id;
    std::memcpy(&id, from + i * sizeof(T), sizeof(T));
    if constexpr (sizeof(T) < sizeof(std::int32_t)) {
      out[i] = id;
    } else {
      out[i] = std::in_range<std::int32_t>(id) ? static_cast<std::int32_t>(id) : -1;
    }
  }
}

}  // namespace

void copy_ids(const MappedFile& file, std::int64_t offset, IdKind kind, std::int64_t first,
              std::span<std::int32_t> out) {
  const auto count = static_cast<std::int64_t>(out.size());
  const auto bytes = file.bytes(offset + first * size_of(kind), count * size_of(kind));
  with_id_type(kind, [&](auto type) { widen<decltype(type)>(bytes.data(), out); });
}

std::int64_t stored_id(const MappedFile& file, std::int64_t offset, IdKind kind, std::int64_t index) {
  return with_id_type(kind, [&](auto type) {
    return static_cast<std::int64_t>(file.get<decltype(type)>(offset + index * size_of(kind)));
  });
}

}  // namespace fivefold
