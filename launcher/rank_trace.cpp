// Spans as they come, marks until the window ends, then the file.
#include "launcher/rank_trace.h"

#include <chrono>
#include <fstream>

#include "core/error.h"
#include "launcher/op_sizes.h"

namespace fivefold {

namespace {

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

class TracingBackend final : public Implements<TracingBackend, Backend, AllOps> {
 public:
  TracingBackend(std::unique_ptr<Backend> inner, std::shared_ptr<RankTrace> trace)
      : inner_(std::move(inner)), trace_(std::move(trace)) {}
  DeviceKind device() const override { return inner_->device(); }

  template <class Op>
  void execute(const Op& op, Stream& stream) {
    if (!trace_->active()) return inner_->run(op, stream);
    trace_->op_begin(Op::kName, op_sizes(op), stream);
    inner_->run(op, stream);
    trace_->op_end(stream);
  }

 private:
  std::unique_ptr<Backend> inner_;
  std::shared_ptr<RankTrace> trace_;
};

std::string peer_text(const LedgerRecord& record) {
  if (record.peer < 0) return {};
  const auto world_rank = record.members.at(static_cast<std::size_t>(record.peer));
  return str(record.op == CommOp::send ? "to" : "from", " rank ", world_rank);
}

// " (pp 1, tp 0)": along the axes that have a size.
std::string coordinates(const DeviceMesh& mesh) {
  std::string out;
  for (const auto axis : {Axis::pp, Axis::replicate, Axis::shard, Axis::cp, Axis::tp})
    if (mesh.size(axis) > 1) out += str(out.empty() ? " (" : ", ", name_of(axis), ' ', mesh.coordinate(axis));
  return out.empty() ? out : out + ')';
}

}  // namespace

TraceWindow trace_window(std::int64_t steps) {
  constexpr std::int64_t kWarmUp = 2, kSteps = 10;
  const auto first = std::clamp<std::int64_t>(steps - 1, 0, kWarmUp);
  return {.first = first, .steps = std::clamp<std::int64_t>(steps - first, 0, kSteps)};
}

RankTrace::RankTrace(int world_rank, std::filesystem::path file) : file_(std::move(file)) {
  timeline_.rank = world_rank;
  timeline_.tracks = {"host", "compute stream"};
}

void RankTrace::start(TraceWindow window, const DeviceMesh& mesh) {
  window_ = window;
  timeline_.rank_name = str("rank ", timeline_.rank, coordinates(mesh));
  ledger_ = &mesh.world().ledger();
  ledger_->observe(shared_from_this());
}

std::unique_ptr<Backend> RankTrace::around(std::unique_ptr<Backend> inner) {
  return std::make_unique<TracingBackend>(std::move(inner), shared_from_this());
}

void RankTrace::begin_step() {
  std::unique_lock lock(mutex_);
  ++step_;
  if (active_) {
    close_all();
    if (step_ >= window_.first + window_.steps || full()) return write(lock);
  }
  if (step_ == window_.first && window_.steps > 0) active_ = true;
  if (active_) step_span_ = {str("step ", step_), now_ns()};
}

void RankTrace::finish() {
  if (ledger_) ledger_->observe(nullptr);
  std::unique_lock lock(mutex_);
  if (!active_) return;
  close_all();
  write(lock);
}

void RankTrace::close(Open& open) {
  if (!open.name.empty() && !full())
    timeline_.spans.push_back(
        {kHost, std::move(open.name), open.begin_ns, now_ns(), open.stage, open.micro_batch});
  open = {};
}

// The innermost first: its end is not behind that of the one around it.
void RankTrace::close_all() {
  for (auto* open : {&action_, &activity_, &step_span_}) close(*open);
}

void RankTrace::activity(std::string_view what) {
  std::lock_guard lock(mutex_);
  if (!active_) return;
  close(action_);
  close(activity_);
  activity_ = {std::string(what), now_ns()};
}

void RankTrace::action(std::string_view what, int stage, int micro_batch) {
  std::lock_guard lock(mutex_);
  if (!active_) return;
  close(action_);
  action_ = {std::string(what), now_ns(), stage, micro_batch};
}

int RankTrace::group_track(const std::string& group) {
  const auto [at, fresh] = group_tracks_.try_emplace(group, static_cast<int>(timeline_.tracks.size()));
  if (fresh) timeline_.tracks.push_back(group);
  return at->second;
}

TraceSpan RankTrace::span_of(const LedgerRecord& record) {
  return {group_track(record.group),
          std::string(name_of(record.op)),
          record.started_ns,
          record.done_ns,
          record.stage,
          record.micro_batch,
          record.bytes,
          peer_text(record)};
}

void RankTrace::transfer(const LedgerRecord& record) {
  std::lock_guard lock(mutex_);
  if (active_ && !full() && !on_device_.contains(record.id) && record.started_ns > 0)
    timeline_.spans.push_back(span_of(record));
}

StreamTimer& RankTrace::timer(const Device& device) {
  auto& timer = timers_[{device.kind, device.index}];
  if (!timer) timer = make_stream_timer(device);
  return *timer;
}

std::size_t RankTrace::mark_begin(TraceSpan span, Stream& stream) {
  auto& clock = timer(stream.device());
  marked_.push_back({.span = std::move(span), .timer = &clock, .begin = clock.mark(stream)});
  return marked_.size() - 1;
}

void RankTrace::mark_end(std::size_t index, Stream& stream) {
  marked_[index].end = marked_[index].timer->mark(stream);
}

void RankTrace::device_begin(const LedgerRecord& record, Stream& stream) {
  std::lock_guard lock(mutex_);
  if (active_ && !full()) on_device_[record.id] = mark_begin(span_of(record), stream);
}

void RankTrace::device_end(LedgerId id, Stream& stream) {
  std::lock_guard lock(mutex_);
  const auto at = on_device_.find(id);
  if (active_ && at != on_device_.end()) mark_end(at->second, stream);
}

void RankTrace::op_begin(std::string_view name, std::string sizes, Stream& stream) {
  std::lock_guard lock(mutex_);
  open_op_.reset();
  if (!active_ || full()) return;
  open_op_ = mark_begin({.track = kCompute,
                         .name = std::string(name),
                         .stage = action_.stage,
                         .micro_batch = action_.micro_batch,
                         .detail = std::move(sizes)},
                        stream);
}

void RankTrace::op_end(Stream& stream) {
  std::lock_guard lock(mutex_);
  if (open_op_) mark_end(*open_op_, stream);
}

// What has no end was cut off by an error or the end of the window.
void RankTrace::resolve(std::vector<Marked> marked, TraceTimeline& timeline) {
  for (auto& m : marked) {
    if (!m.end) continue;
    m.span.begin_ns = m.timer->nanoseconds(m.begin);
    m.span.end_ns = m.timer->nanoseconds(*m.end);
    timeline.spans.push_back(std::move(m.span));
  }
}

// The device is waited for without the lock: whoever watches the transfers tells the ledger meanwhile.
void RankTrace::write(std::unique_lock<std::mutex>& lock) {
  active_ = false;
  open_op_.reset();
  on_device_.clear();
  auto marked = std::exchange(marked_, {});
  const auto timers = std::exchange(timers_, {});
  auto timeline = std::exchange(timeline_, {});
  lock.unlock();
  resolve(std::move(marked), timeline);
  std::filesystem::create_directories(file_.parent_path());
  std::ofstream out(file_);
  write_trace(out, timeline);
  if (!out.flush()) throw Error(str("log.trace: cannot write ", file_.string()));
}

}  // namespace fivefold
