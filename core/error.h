// Errors. A broken invariant throws Error with file, line and the values; a user's mistake throws UserError
// with one sentence (rule, values, nearest valid value). Both are caught once, in main, which exits 1 or 2.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace fivefold {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Wrong usage, configuration or input: the process exits with code 2 and has changed nothing.
class UserError : public Error {
 public:
  using Error::Error;
};

// Concatenates its arguments as operator<< prints them.
template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  out.precision(9);
  static_cast<void>((out << ... << parts));
  return out.str();
}

[[noreturn]] void fail(const char* file, int line, std::string_view what, const std::string& detail);

}  // namespace fivefold

// Always on. The message parts are formatted only when the condition is false.
#define FF_CHECK(cond, ...)                                                                       \
  do {                                                                                            \
    if (!(cond)) [[unlikely]]                                                                     \
      ::fivefold::fail(__FILE__, __LINE__, "check failed: " #cond, ::fivefold::str(__VA_ARGS__)); \
  } while (false)

// Compares and prints both values.
#define FF_CHECK_EQ(a, b, ...)                                                                 \
  do {                                                                                         \
    const auto& ff_a = (a);                                                                    \
    const auto& ff_b = (b);                                                                    \
    if (!(ff_a == ff_b)) [[unlikely]]                                                          \
      ::fivefold::fail(__FILE__, __LINE__, "check failed: " #a " == " #b,                      \
                       ::fivefold::str(ff_a, " vs ", ff_b __VA_OPT__(, " - ", ) __VA_ARGS__)); \
  } while (false)
