// FF_ZSTD(expr): the value of a zstd call, or an Error with zstd's own name for what went wrong.
#pragma once
#include <zstd.h>

#include "core/error.h"

namespace fivefold {

inline std::size_t check_zstd(std::size_t code, const char* file, int line, const char* expression) {
  if (ZSTD_isError(code)) [[unlikely]]
    fail(file, line, expression, ZSTD_getErrorName(code));
  return code;
}

}  // namespace fivefold

#define FF_ZSTD(expr) ::fivefold::check_zstd((expr), __FILE__, __LINE__, #expr)
