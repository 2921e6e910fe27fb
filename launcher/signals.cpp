// A signal handler can only write to static storage; this is the one place that has some.
#include "launcher/signals.h"

#include <array>
#include <csignal>

namespace fivefold {

namespace {

volatile std::sig_atomic_t first_signal = 0;
constexpr std::array kStopSignals{SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGINT};

void on_signal(int signal) {
  if (first_signal == 0) first_signal = signal;
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);
}

void handle_all(void (*handler)(int)) {
  for (int signal : kStopSignals) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace

StopSignals::StopSignals() {
  first_signal = 0;
  handle_all(on_signal);
}
StopSignals::~StopSignals() {
  handle_all(SIG_IGN);
  std::signal(SIGINT, SIG_DFL);
}
int StopSignals::seen() const { return first_signal; }

}  // namespace fivefold
