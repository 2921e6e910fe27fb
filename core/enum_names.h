// Names of enum values as configuration files, messages and metrics spell them. An enum takes part by
// specialising kEnumNames with one name per value, in order of the values 0, 1, 2, ...
#pragma once
#include <cstddef>
#include <ostream>
#include <span>
#include <string_view>
#include <type_traits>

namespace fivefold {

// Specialised beside each enum: `template <> inline constexpr auto kEnumNames<E> =
// std::to_array<std::string_view>({...});`
template <class E>
inline constexpr auto kEnumNames = nullptr;

template <class E>
concept NamedEnum =
    std::is_enum_v<E> && !std::is_same_v<std::remove_cv_t<decltype(kEnumNames<E>)>, std::nullptr_t>;

template <NamedEnum E>
constexpr std::span<const std::string_view> enum_names() {
  return kEnumNames<E>;
}

template <NamedEnum E>
constexpr std::string_view name_of(E value) {
  return kEnumNames<E>[static_cast<std::size_t>(value)];
}

template <NamedEnum E>
std::ostream& operator<<(std::ostream& out, E value) {
  return out << name_of(value);
}

}  // namespace fivefold
