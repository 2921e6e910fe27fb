// Codecs of plain values: booleans, numbers, texts, sizes, times, lists.
#include "launcher/values.h"

#include <array>
#include <charconv>
#include <cmath>

#include "core/error.h"

namespace fivefold {
namespace {

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return {};
  return value;
}

// The shortest decimal text that reads back to the same double.
std::string shortest(double value) {
  std::array<char, 32> buffer;
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e15);
  const auto [stop, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                           plain ? std::chars_format::fixed : std::chars_format::scientific);
  FF_CHECK(error == std::errc{}, "a double needs at most 24 characters");
  return {buffer.data(), stop};
}

template <class T>
Codec<T> whole_number(T least, const std::string& expects) {
  return {.parse = [least](std::string_view text) -> std::optional<T> {
            const auto value = parse_number<T>(text);
            return value && *value >= least ? value : std::nullopt;
          },
          .format = [](const T& value) { return std::to_string(value); },
          .expects = expects,
          .placeholder = "N",
          .allowed = {}};
}

Codec<double> real_number(std::function<bool(double)> holds, const std::string& expects) {
  return {.parse = [holds](std::string_view text) -> std::optional<double> {
            const auto value = parse_number<double>(text);
            return value && std::isfinite(*value) && holds(*value) ? value : std::nullopt;
          },
          .format = shortest,
          .expects = expects,
          .placeholder = "X",
          .allowed = {}};
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto at = text.find(separator);
    parts.push_back(trimmed(text.substr(0, at)));
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + 1);
    if (text.empty()) parts.emplace_back();
  }
  return parts;
}

// A list codec from the codec of one item; an empty text is an empty list, an empty item is refused.
template <class T>
Codec<std::vector<T>> list(Codec<T> item, const std::string& expects, const std::string& placeholder) {
  using List = std::vector<T>;
  return {.parse = [item](std::string_view text) -> std::optional<List> {
            List values;
            for (const auto part : split(text, ',')) {
              auto value = part.empty() ? std::nullopt : item.parse(part);
              if (!value) return {};
              values.push_back(std::move(*value));
            }
            return values;
          },
          .format =
              [item](const List& values) {
                std::string joined;
                for (const auto& value : values) joined += (joined.empty() ? "" : ",") + item.format(value);
                return joined;
              },
          .expects = expects,
          .placeholder = placeholder,
          .allowed = {}};
}

struct Unit {
  std::string_view name;
  std::int64_t size;
};
constexpr std::array kSizeUnits = {Unit{"TiB", std::int64_t{1} << 40}, Unit{"GiB", std::int64_t{1} << 30},
                                   Unit{"MiB", std::int64_t{1} << 20}, Unit{"KiB", std::int64_t{1} << 10},
                                   Unit{"B", 1}};
constexpr std::array kTimeUnits = {Unit{"d", 86400}, Unit{"h", 3600}, Unit{"m", 60}, Unit{"s", 1}};

std::optional<std::int64_t> parse_size(std::string_view text) {
  for (const auto& unit : kSizeUnits) {
    if (!text.ends_with(unit.name)) continue;
    const auto count = parse_number<std::int64_t>(trimmed(text.substr(0, text.size() - unit.name.size())));
    if (!count || *count < 0 || *count > INT64_MAX / unit.size) return {};
    return *count * unit.size;
  }
  const auto bytes = parse_number<std::int64_t>(text);
  return bytes && *bytes >= 0 ? bytes : std::nullopt;
}

std::string format_size(const std::int64_t& bytes) {
  for (const auto& unit : kSizeUnits)
    if (bytes != 0 && bytes % unit.size == 0) return str(bytes / unit.size, unit.name);
  return "0B";
}

// "1h30m": units in falling order, each once; a plain number is seconds.
std::optional<double> parse_duration(std::string_view text) {
  if (const auto plain = parse_number<double>(text))
    return *plain >= 0 && std::isfinite(*plain) ? plain : std::nullopt;
  if (text.empty()) return {};
  double total = 0;
  for (const auto& unit : kTimeUnits) {
    const auto at = text.find(unit.name);
    if (at == std::string_view::npos) continue;
    const auto count = parse_number<double>(text.substr(0, at));
    if (!count || *count < 0 || !std::isfinite(*count)) return {};
    total += *count * static_cast<double>(unit.size);
    text.remove_prefix(at + 1);
  }
  return text.empty() ? std::optional(total) : std::nullopt;
}

std::string format_duration(const double& seconds) {
  for (const auto& unit : kTimeUnits) {
    const double count = seconds / static_cast<double>(unit.size);
    if (count >= 1 && count == std::floor(count)) return shortest(count) + std::string(unit.name);
  }
  return shortest(seconds) + "s";
}

}  // namespace

Codec<bool> boolean() {
  return {.parse = [](std::string_view text) -> std::optional<bool> {
            if (text != "true" && text != "false") return {};
            return text == "true";
          },
          .format = [](const bool& value) { return std::string(value ? "true" : "false"); },
          .expects = "true or false",
          .placeholder = "BOOL",
          .allowed = {"true", "false"}};
}

Codec<std::int64_t> integer(std::int64_t least) {
  return whole_number<std::int64_t>(least, str("an integer of at least ", least));
}

Codec<int> small_integer(int least, int most) {
  if (most == std::numeric_limits<int>::max())
    return whole_number<int>(least, str("an integer of at least ", least));
  auto codec = whole_number<int>(least, str("an integer in ", least, "..", most));
  codec.parse = [most, inner = codec.parse](std::string_view text) {
    const auto value = inner(text);
    return value && *value <= most ? value : std::nullopt;
  };
  return codec;
}

Codec<int> automatic_or(int least) {
  auto codec = whole_number<int>(least, str("auto or an integer of at least ", least));
  const auto plain = codec;
  codec.parse = [plain](std::string_view text) { return text == "auto" ? 0 : plain.parse(text); };
  codec.format = [plain](const int& value) { return value == 0 ? "auto" : plain.format(value); };
  return codec;
}

Codec<std::uint64_t> seed_number() { return whole_number<std::uint64_t>(0, "an integer in 0..2^64-1"); }

Codec<double> number(double least) {
  return real_number([least](double value) { return value >= least; }, str("a number of at least ", least));
}

Codec<double> positive_number() {
  return real_number([](double value) { return value > 0; }, "a number greater than 0");
}

Codec<std::string> text() {
  return {.parse = [](std::string_view text) -> std::optional<std::string> { return std::string(text); },
          .format = [](const std::string& value) { return value; },
          .expects = "a text",
          .placeholder = "TEXT",
          .allowed = {}};
}

Codec<std::string> path() {
  auto codec = text();
  codec.placeholder = "PATH";
  return codec;
}

Codec<std::int64_t> size_in_bytes() {
  return {.parse = parse_size,
          .format = format_size,
          .expects = "a size such as 512MiB, 2GiB or 4096 (bytes)",
          .placeholder = "SIZE",
          .allowed = {}};
}

Codec<double> duration_s() {
  return {.parse = parse_duration,
          .format = format_duration,
          .expects = "a time such as 45s, 10m, 1h30m or 90 (seconds)",
          .placeholder = "TIME",
          .allowed = {}};
}

Codec<std::vector<std::string>> names() { return list(text(), "names separated by commas", "NAME,..."); }

Codec<std::vector<std::int64_t>> counts() {
  return list(integer(1), "integers of at least 1 separated by commas", "N,...");
}

std::string list_of(const std::vector<std::string>& names) {
  std::string joined;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) joined += i + 1 == names.size() ? " or " : ", ";
    joined += names[i];
  }
  return joined;
}

}  // namespace fivefold
