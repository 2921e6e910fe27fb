// Where the held-out tail of a text file begins.
#pragma once
#include <cstdint>
#include <string>

namespace fivefold {

// Byte at which the last `fraction` of the file begins, moved on to just behind the next line feed where one
// comes within 4 KiB, else to the next UTF-8 character. In [0, size]. Throws UserError for what is no regular
// file.
std::int64_t tail_cut(const std::string& path, double fraction);

}  // namespace fivefold
