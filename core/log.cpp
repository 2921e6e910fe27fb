// Boost.Log keeps one core a process. Each Log tags its records with its own address and its sinks take only
// those, so that ranks that are threads do not see each other's lines.
#include "core/log.h"

#include <boost/core/null_deleter.hpp>
#include <boost/log/attributes/constant.hpp>
#include <boost/log/attributes/value_extraction.hpp>
#include <boost/log/core.hpp>
#include <boost/log/sinks/sync_frontend.hpp>
#include <boost/log/sinks/text_ostream_backend.hpp>
#include <boost/log/sources/logger.hpp>
#include <boost/log/sources/record_ostream.hpp>
#include <boost/smart_ptr/make_shared.hpp>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <vector>

#include "core/nearest.h"

namespace fivefold {
namespace {

namespace bl = boost::log;
using Backend = bl::sinks::text_ostream_backend;
using Sink = bl::sinks::synchronous_sink<Backend>;
constexpr const char* kOwner = "Owner";

// Local time by a strftime pattern.
std::string time_text(const char* pattern) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char buffer[32];
  return {buffer, std::strftime(buffer, sizeof buffer, pattern, &parts)};
}

std::string line_of(const char* time_pattern, int world_rank, LogLevel level, const std::string& message) {
  const auto severity = level == LogLevel::info ? "" : str(level, ": ");
  return str(time_text(time_pattern), " [", world_rank, "] ", severity, message);
}

boost::shared_ptr<std::ostream> open_for_append(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code failed;
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  auto stream = boost::make_shared<std::ofstream>(path, std::ios::app);
  if (!*stream) throw UserError(str("cannot write the log file '", path, "'"));
  return stream;
}

}  // namespace

struct Log::Sinks {
  int world_rank = 0;
  std::vector<boost::shared_ptr<Sink>> all;
  mutable bl::sources::logger_mt console, file;  // one a sink, since their lines differ
  bool has_console = false, has_file = false;

  // Adds a sink for records of `logger` that writes to `stream`.
  void add(bl::sources::logger_mt& logger, const boost::shared_ptr<std::ostream>& stream) {
    const void* owner = &logger;
    logger.add_attribute(kOwner, bl::attributes::constant<const void*>(owner));
    auto backend = boost::make_shared<Backend>();
    backend->add_stream(stream);
    backend->auto_flush(true);
    auto sink = boost::make_shared<Sink>(backend);
    sink->set_filter([owner](const bl::attribute_value_set& values) {
      const auto tag = bl::extract<const void*>(kOwner, values);
      return tag && tag.get() == owner;
    });
    bl::core::get()->add_sink(sink);
    all.push_back(sink);
  }
  ~Sinks() {
    for (const auto& sink : all) bl::core::get()->remove_sink(sink);
  }
};

Log::Log(const LogOptions& options) : level_(options.level), sinks_(std::make_unique<Sinks>()) {
  sinks_->world_rank = options.world_rank;
  sinks_->has_console = options.console && options.world_rank == 0;
  sinks_->has_file = !options.file.empty();
  if (sinks_->has_console)
    sinks_->add(sinks_->console, boost::shared_ptr<std::ostream>(&std::clog, boost::null_deleter()));
  if (sinks_->has_file) sinks_->add(sinks_->file, open_for_append(options.file));
}

Log::~Log() = default;

void Log::write(LogLevel level, const std::string& message) const {
  if (level < level_) return;
  if (sinks_->has_console)
    BOOST_LOG(sinks_->console) << line_of("%H:%M:%S", sinks_->world_rank, level, message);
  if (sinks_->has_file) BOOST_LOG(sinks_->file) << line_of("%F %T", sinks_->world_rank, level, message);
}

LogLevel log_level_from(const std::string& name) {
  const auto known = enum_names<LogLevel>();
  for (std::size_t i = 0; i < known.size(); ++i)
    if (known[i] == name) return static_cast<LogLevel>(i);
  const std::vector<std::string> names(known.begin(), known.end());
  throw UserError(str("unknown log level '", name, "'; the nearest is '", nearest_name(name, names), "'"));
}

}  // namespace fivefold
