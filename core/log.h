// Logging: rank-prefixed lines, console on world rank 0, one file per rank. info: facts a user follows; warn:
// needs a person. Only log.cpp knows the library behind it.
#pragma once
#include <array>
#include <memory>
#include <string>

#include "core/enum_names.h"
#include "core/error.h"

namespace fivefold {

enum class LogLevel { debug, info, warn, error };
template <>
inline constexpr auto kEnumNames<LogLevel> = std::to_array<std::string_view>({"debug", "info", "warn",
                                                                              "error"});

struct LogOptions {
  int world_rank = 0;
  LogLevel level = LogLevel::info;
  bool console = true;  // to standard error, on world rank 0 only
  std::string file;     // appended to, its folder made where missing; empty: no file
};

// One rank's logger. A value handed down, so that ranks that are threads of one process each have their own.
class Log {
 public:
  // Throws UserError where the file cannot be opened.
  explicit Log(const LogOptions& options = {});
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // One line, whole even when several threads write, and on its way to the disk when the call returns.
  void write(LogLevel level, const std::string& message) const;
  template <class... Parts>
  void debug(const Parts&... parts) const {
    if (level_ <= LogLevel::debug) write(LogLevel::debug, str(parts...));
  }
  template <class... Parts>
  void info(const Parts&... parts) const {
    write(LogLevel::info, str(parts...));
  }
  template <class... Parts>
  void warn(const Parts&... parts) const {
    write(LogLevel::warn, str(parts...));
  }
  template <class... Parts>
  void error(const Parts&... parts) const {
    write(LogLevel::error, str(parts...));
  }

 private:
  struct Sinks;
  LogLevel level_;
  std::unique_ptr<Sinks> sinks_;
};

// "debug", "info", "warn", "error"; throws UserError for another name.
LogLevel log_level_from(const std::string& name);

}  // namespace fivefold
