// Formats the text of a failed check: file, line, condition, values.
#include "core/error.h"

namespace fivefold {

void fail(const char* file, int line, std::string_view what, const std::string& detail) {
  throw Error(str(file, ':', line, ": ", what, detail.empty() ? "" : " - ", detail));
}

}  // namespace fivefold
