// log.trace: what one rank does in a few steps, as a timeline file. Host phases and transfers come from the
// ledger, ops from a backend around the backend. On a CUDA device ops and transfers are timed by events that
// are read when the last of those steps is over, so nothing waits for them before.
#pragma once
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

#include "core/stream_timer.h"
#include "kernels/backend.h"
#include "launcher/trace_file.h"
#include "parallel/mesh/mesh.h"

namespace fivefold {

struct TraceWindow {
  std::int64_t first = 0;  // step of this process, from 0
  std::int64_t steps = 0;
  std::size_t most_spans = 250'000;  // further ones are not kept, so that files stay below 50 MB
};
// Of a process that makes `steps` steps: two to warm up, then ten; fewer where there are fewer.
TraceWindow trace_window(std::int64_t steps);

class RankTrace final : public LedgerObserver, public std::enable_shared_from_this<RankTrace> {
 public:
  RankTrace(int world_rank, std::filesystem::path file);

  // Every op that runs through the result is seen. It keeps the trace alive.
  std::unique_ptr<Backend> around(std::unique_ptr<Backend> inner);
  // Steps count from now on; transfers and host phases are seen.
  void start(TraceWindow window, const DeviceMesh& mesh);
  // The rank's next step begins. Behind the window's last the file is written.
  void begin_step();
  // No step follows: writes what there is, if it is not written yet, and looks no more.
  void finish();
  bool active() const { return active_; }

  void activity(std::string_view what) override;
  void action(std::string_view what, int stage, int micro_batch) override;
  void transfer(const LedgerRecord& record) override;
  void device_begin(const LedgerRecord& record, Stream& stream) override;
  void device_end(LedgerId id, Stream& stream) override;

  // An op is about to be queued on the stream, and has been.
  void op_begin(std::string_view name, std::string sizes, Stream& stream);
  void op_end(Stream& stream);

 private:
  enum Track { kHost, kCompute };  // groups follow, in the order of their first transfers
  // Of the host, still going on. Without a name: none.
  struct Open {
    std::string name;
    std::int64_t begin_ns = 0;
    int stage = -1, micro_batch = -1;
  };
  // A span between two marks of a device's timer.
  struct Marked {
    TraceSpan span;
    StreamTimer* timer = nullptr;
    StreamTimer::Mark begin = 0;
    std::optional<StreamTimer::Mark> end;
  };
  void close(Open& open);
  void close_all();
  bool full() const { return timeline_.spans.size() + marked_.size() >= window_.most_spans; }
  int group_track(const std::string& group);
  TraceSpan span_of(const LedgerRecord& record);
  StreamTimer& timer(const Device& device);
  std::size_t mark_begin(TraceSpan span, Stream& stream);  // returns its place in marked_
  void mark_end(std::size_t index, Stream& stream);
  static void resolve(std::vector<Marked> marked, TraceTimeline& timeline);
  void write(std::unique_lock<std::mutex>& lock);  // looks at nothing from now on; releases the lock

  std::mutex mutex_;
  TraceWindow window_;
  Ledger* ledger_ = nullptr;
  std::filesystem::path file_;
  TraceTimeline timeline_;
  std::int64_t step_ = -1;
  std::atomic<bool> active_ = false;
  Open step_span_, activity_, action_;
  std::map<std::string, int> group_tracks_;
  std::map<std::pair<DeviceKind, int>, std::unique_ptr<StreamTimer>> timers_;
  std::vector<Marked> marked_;
  std::optional<std::size_t> open_op_;
  std::map<LedgerId, std::size_t> on_device_;
};

}  // namespace fivefold
