// Lines of metrics.jsonl.
#include "launcher/metrics.h"

#include <chrono>
#include <cmath>

#include "checkpoint/file_system.h"
#include "core/error.h"
#include "core/json.h"

namespace fivefold {

namespace {

// JSON has no infinities and no NaN.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double seconds_since_epoch() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// A line that a crash cut short is dropped too.
bool keeps(const std::string& line, std::int64_t samples) {
  const auto json = Json::parse(line, nullptr, false);
  return !json.is_discarded() && json.value("samples", samples + 1) <= samples;
}

void rewind_to(const std::filesystem::path& file, std::int64_t samples) {
  PosixFileSystem fs;
  if (fs.kind(file) != PathKind::file) return;
  const auto text = read_text(fs, file);
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);)
    if (keeps(line, samples)) kept += line + "\n";
  if (kept != text) write_text_durably(fs, file, kept);
}

Json rates(const StepMetrics& m) {
  const double per_second = m.step_seconds > 0 ? static_cast<double>(m.tokens) / m.step_seconds : 0;
  Json mfu = nullptr;
  if (m.peak_flops && m.step_seconds > 0) mfu = m.model_flops / m.step_seconds / (*m.peak_flops * m.devices);
  return {{"step_seconds", m.step_seconds},
          {"tokens_per_second", per_second},
          {"tokens_per_second_per_device", per_second / m.devices},
          {"model_flops", m.model_flops},
          {"mfu", mfu}};
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& file, std::int64_t samples) {
  rewind_to(file, samples);
  file_.reset(std::fopen(file.c_str(), "a"));
  if (!file_) throw Error(str("cannot append to ", file.string()));
}

void MetricsFile::line(const std::string& text) {
  std::fprintf(file_.get(), "%s\n", text.c_str());
  FF_CHECK(std::fflush(file_.get()) == 0, "metrics.jsonl cannot be written");
}

void MetricsFile::write(const StepMetrics& m) {
  Json out{{"step", m.step},
           {"samples", m.samples},
           {"loss", number(m.loss)},
           {"aux_loss", nullptr},
           {"grad_norm", number(m.grad_norm)},
           {"lr", m.lr},
           {"tokens", m.tokens},
           {"valid_tokens", m.valid_tokens}};
  out.update(rates(m));
  out["memory_peak_bytes"] = m.memory_peak_bytes;
  out["skipped"] = m.skipped;
  for (const char* key : {"expert_load_max", "expert_load_mean", "dropped", "router_z_loss"})
    out[key] = nullptr;
  out["wall_time"] = seconds_since_epoch();
  line(out.dump());
}

void MetricsFile::write(const ValidMetrics& m) {
  line(Json{{"split", "valid"},
            {"step", m.step},
            {"samples", m.samples},
            {"loss", number(m.loss)},
            {"valid_tokens", m.valid_tokens},
            {"wall_time", seconds_since_epoch()}}
           .dump());
}

}  // namespace fivefold
