// How one configuration value is written: text to a typed value and back, with what a wrong text should have
// been.
#pragma once
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/enum_names.h"
#include "launcher/config.h"

namespace fivefold {

// `parse` gives nothing for a text it does not accept; `format` gives a text that parses back to the same
// value.
template <class T>
struct Codec {
  std::function<std::optional<T>(std::string_view)> parse;
  std::function<std::string(const T&)> format;
  std::string expects;               // "an integer of at least 1"
  std::string placeholder;           // in help: "N"
  std::vector<std::string> allowed;  // where only these are
};

Codec<bool> boolean();  // true or false
Codec<std::int64_t> integer(std::int64_t least);
Codec<int> small_integer(int least, int most = std::numeric_limits<int>::max());
Codec<int> automatic_or(int least);  // "auto" is 0
Codec<std::uint64_t> seed_number();
Codec<double> number(double least);  // finite
Codec<double> positive_number();     // finite, greater than 0
Codec<std::string> text();
Codec<std::string> path();
Codec<std::int64_t> size_in_bytes();        // 2GiB, 512MiB, 4096
Codec<double> duration_s();                 // 10m, 1h30m, 45s, 90
Codec<std::vector<std::string>> names();    // comma separated
Codec<std::vector<std::int64_t>> counts();  // comma separated, each at least 1
Codec<RopeScaling> rope_scaling();          // none, or TYPE,key=value,...
Codec<DType> float_dtype();
Codec<std::optional<DType>> storage_dtype();  // "auto" is empty
Codec<std::string> one_of(const std::vector<std::string>& allowed);

template <NamedEnum E>
Codec<E> choice() {
  Codec<E> codec;
  for (const auto name : enum_names<E>()) codec.allowed.emplace_back(name);
  codec.parse = [](std::string_view text) -> std::optional<E> {
    const auto names = enum_names<E>();
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == text) return static_cast<E>(i);
    return {};
  };
  codec.format = [](const E& value) { return std::string(name_of(value)); };
  return codec;
}

// "a, b or c"
std::string list_of(const std::vector<std::string>& names);

}  // namespace fivefold
