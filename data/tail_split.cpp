#include "data/tail_split.h"

#include <algorithm>
#include <cmath>

#include "data/mapped_file.h"

namespace fivefold {

std::int64_t tail_cut(const std::string& path, double fraction) {
  const MappedFile file(path);
  const auto size = file.size();
  const auto held_out = static_cast<std::int64_t>(std::llround(static_cast<double>(size) * fraction));
  const std::int64_t cut = size - std::clamp<std::int64_t>(held_out, 0, size);
  const auto behind = file.bytes(cut, std::min<std::int64_t>(size - cut, 4096));
  const auto line_feed = std::find(behind.begin(), behind.end(), std::byte{'\n'});
  if (line_feed != behind.end() && cut + (line_feed - behind.begin()) + 1 < size)
    return cut + (line_feed - behind.begin()) + 1;
  const auto is_inside = [](std::byte b) { return (b & std::byte{0xc0}) == std::byte{0x80}; };
  const auto limit = behind.begin() + std::min<std::ptrdiff_t>(3, static_cast<std::ptrdiff_t>(behind.size()));
  return cut + (std::find_if_not(behind.begin(), limit, is_inside) - behind.begin());
}

}  // namespace fivefold
