// Plain text in columns, and numbers as people read them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace fivefold {

// Columns as wide as their longest word, two spaces between them; those from `right` on are set to the right.
std::string text_table(const std::vector<std::vector<std::string>>& lines, std::size_t right = SIZE_MAX);

std::string text_of_bytes(std::int64_t bytes);  // "512 B", "1.50 GiB"
std::string text_of_count(double count,
                          const char* unit = "");  // "124.4 M", "1.2 TFLOP" (unit "FLOP"): powers of 1000

std::string text_of_share(double share);  // "12.3 %"

}  // namespace fivefold
