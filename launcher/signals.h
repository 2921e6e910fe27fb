// Requests to stop: TERM, USR1, USR2, HUP (schedulers differ in what they send) and INT set a flag that
// training polls at step edges, so that all ranks save the same step and leave together. A repeated signal
// changes nothing, but a second INT ends the process at once.
#pragma once

namespace fivefold {

// Installs the handlers for its lifetime. At most one at a time. Afterwards the signals but INT are ignored:
// who is on the way out, having saved, must not die of one that comes late and lose the exit code.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  // The first signal seen, or 0.
  int seen() const;
};

}  // namespace fivefold
