// What a person sees while a run goes on: a bar with loss, speed and time left on a terminal, plain lines
// elsewhere.
#pragma once
#include <cstdint>
#include <string>

namespace fivefold {

struct ProgressFacts {
  std::int64_t attempt = 0, attempts = 0;  // steps tried, to try
  double loss = 0, grad_norm = 0, lr = 0;
  double tokens_per_second = 0;
  double seconds_left = 0;
};

// "12%|###       | 120/1000  loss 3.2145  12.3k tok/s  1m02s left": no longer than `columns`.
std::string progress_bar(const ProgressFacts& facts, int columns);
// "step 120/1000  loss 3.2145  grad norm 1.234  lr 3.00e-04  12.3k tok/s  1m02s left"
std::string progress_line(const ProgressFacts& facts);
std::string format_rate(double per_second);  // 950, 12.3k, 1.20M
std::string format_seconds(double seconds);  // 8s, 1m02s, 2h05m

// Writes the bar over itself on a terminal. Silent elsewhere: there the log's lines tell.
class ProgressBar {
 public:
  explicit ProgressBar(bool enabled);
  ~ProgressBar();
  void show(const ProgressFacts& facts);
  // Removes the bar, so that other lines can be printed.
  void clear();
  bool enabled() const { return enabled_; }

 private:
  bool enabled_, shown_ = false;
};

// True when standard error is a terminal.
bool stderr_is_terminal();

}  // namespace fivefold
