#include "launcher/text_table.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace fivefold {

namespace {

std::string spaces(std::size_t width, const std::string& word) {
  return std::string(width - word.size(), ' ');
}

}  // namespace

std::string text_table(const std::vector<std::vector<std::string>>& lines, std::size_t right) {
  std::vector<std::size_t> width;
  for (const auto& line : lines) {
    width.resize(std::max(width.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) width[i] = std::max(width[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool last = i + 1 == line.size();
      if (i >= right) text += spaces(width[i], line[i]);
      text += line[i];
      if (i < right && !last) text += spaces(width[i], line[i]);
      if (!last) text += "  ";
    }
    text += '\n';
  }
  return text;
}

std::string text_of_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 6> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text.data();
}

std::string text_of_count(double count, const char* unit) {
  constexpr std::array<const char*, 7> kPrefixes{"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  for (; count >= 1000 && prefix + 1 < kPrefixes.size(); ++prefix) count /= 1000;
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), prefix == 0 ? "%.0f%s%s%s" : "%.2f%s%s%s", count,
                prefix == 0 && *unit == '\0' ? "" : " ", kPrefixes[prefix], unit);
  return text.data();
}

std::string text_of_share(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", share * 100);
  return text.data();
}

}  // namespace fivefold
