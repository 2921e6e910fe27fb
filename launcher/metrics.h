// metrics.jsonl: one object a step, appended. Keys are a contract with scripts: do not rename.
#pragma once
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

namespace fivefold {

struct StepMetrics {
  std::int64_t step = 0;     // applied updates
  std::int64_t samples = 0;  // consumed so far; unique per line
  double loss = 0;           // mean over the step's valid tokens
  double grad_norm = 0;      // before clipping
  double lr = 0;
  std::int64_t tokens = 0;        // of this step, padding not counted
  std::int64_t valid_tokens = 0;  // those with a target
  double step_seconds = 0;
  int devices = 1;
  double model_flops = 0;            // of this step, forward and backward
  std::optional<double> peak_flops;  // of one device in the compute dtype
  std::int64_t memory_peak_bytes = 0;
  std::int64_t skipped = 0;  // updates refused so far
};

struct ValidMetrics {
  std::int64_t step = 0, samples = 0;
  double loss = 0;
  std::int64_t valid_tokens = 0;
};

class MetricsFile {
 public:
  // Opened for appending; throws Error when it cannot be. Lines of an earlier process beyond `samples` are
  // dropped first: they tell of steps that were lost with it and are made again, and a sample count stands on
  // one line of each kind only.
  MetricsFile(const std::filesystem::path& file, std::int64_t samples);
  void write(const StepMetrics& m);
  void write(const ValidMetrics& m);

 private:
  void line(const std::string& text);
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace fivefold
