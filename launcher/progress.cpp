// Texts of the bar and the line, and the bar's drawing.
#include "launcher/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace fivefold {

namespace {

constexpr int kBarWidth = 24;

template <class... Args>
std::string format(const char* pattern, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

int terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string format_rate(double r) {
  if (r >= 1e6) return format("%.2fM", r / 1e6);
  if (r >= 1e3) return format("%.1fk", r / 1e3);
  return format("%.0f", r);
}

std::string format_seconds(double seconds) {
  const auto s = static_cast<long long>(std::max(seconds, 0.0) + 0.5);
  if (s >= 3600) return format("%lldh%02lldm", s / 3600, s % 3600 / 60);
  if (s >= 60) return format("%lldm%02llds", s / 60, s % 60);
  return format("%llds", s);
}

std::string progress_bar(const ProgressFacts& f, int columns) {
  const double part = f.attempts > 0 ? static_cast<double>(f.attempt) / static_cast<double>(f.attempts) : 1;
  const auto full = static_cast<std::size_t>(std::clamp(part, 0.0, 1.0) * kBarWidth);
  auto text = format("%3.0f%%|", 100 * part) + std::string(full, '#') + std::string(kBarWidth - full, ' ') +
              format("| %lld/%lld  loss %.4f  ", static_cast<long long>(f.attempt),
                     static_cast<long long>(f.attempts), f.loss) +
              format_rate(f.tokens_per_second) + " tok/s  " + format_seconds(f.seconds_left) + " left";
  return text.substr(0, static_cast<std::size_t>(std::max(columns, 1)));
}

std::string progress_line(const ProgressFacts& f) {
  return format("step %lld/%lld  loss %.4f  grad norm %.3f  lr %.2e  ", static_cast<long long>(f.attempt),
                static_cast<long long>(f.attempts), f.loss, f.grad_norm, f.lr) +
         format_rate(f.tokens_per_second) + " tok/s  " + format_seconds(f.seconds_left) + " left";
}

bool stderr_is_terminal() { return isatty(STDERR_FILENO) != 0; }

ProgressBar::ProgressBar(bool enabled) : enabled_(enabled) {}
ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::show(const ProgressFacts& facts) {
  if (!enabled_) return;
  std::fprintf(stderr, "\r\033[K%s", progress_bar(facts, terminal_columns() - 1).c_str());
  std::fflush(stderr);
  shown_ = true;
}

void ProgressBar::clear() {
  if (!std::exchange(shown_, false)) return;
  std::fprintf(stderr, "\r\033[K");
  std::fflush(stderr);
}

}  // namespace fivefold
