// The ring of records: slot id % capacity, or a growing list when everything is kept.
#include "parallel/comm/ledger.h"

#include <algorithm>

#include "core/error.h"

namespace fivefold {

namespace {

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

std::string_view name_of(CommOp op) {
  constexpr std::array<std::string_view, 7> kNames{
      "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send", "recv", "host"};
  return kNames[static_cast<std::size_t>(op)];
}

Ledger::Ledger(int world_rank, std::size_t capacity, bool keep_all)
    : world_rank_(world_rank), capacity_(capacity), keep_all_(keep_all) {
  FF_CHECK(capacity_ > 0, "a ledger keeps at least one record");
}

LedgerId Ledger::enqueue(LedgerRecord record) {
  std::lock_guard lock(mutex_);
  record.id = next_++;
  record.launch = open_launches_ > 0 ? next_launch_ : next_launch_++;
  record.stage = stage_;
  record.micro_batch = micro_batch_;
  record.enqueued_ns = now_ns();
  auto& totals = totals_[record.group];
  ++totals.transfers;
  totals.sent_bytes += record.sent_bytes;
  const auto id = record.id;
  if (keep_all_ || ring_.size() < capacity_)
    ring_.push_back(std::move(record));
  else
    ring_[static_cast<std::size_t>(id) % capacity_] = std::move(record);
  return id;
}

LedgerRecord* Ledger::find(LedgerId id) {
  const auto slot = keep_all_ ? static_cast<std::size_t>(id) : static_cast<std::size_t>(id) % capacity_;
  return slot < ring_.size() && ring_[slot].id == id ? &ring_[slot] : nullptr;
}

void Ledger::started(LedgerId id) {
  std::lock_guard lock(mutex_);
  if (auto* record = find(id)) record->started_ns = now_ns();
}

void Ledger::done(LedgerId id) {
  std::unique_lock lock(mutex_);
  auto* record = find(id);
  if (!record) return;
  record->done_ns = now_ns();
  if (!observer_) return;
  const auto seen = *record;
  const auto observer = observer_;
  lock.unlock();
  observer->transfer(seen);
}

void Ledger::device_begin(LedgerId id, Stream& stream) {
  std::unique_lock lock(mutex_);
  const auto* record = find(id);
  if (!observer_ || !record) return;
  const auto seen = *record;
  const auto observer = observer_;
  lock.unlock();
  observer->device_begin(seen, stream);
}

void Ledger::device_end(LedgerId id, Stream& stream) {
  if (const auto seen = observer()) seen->device_end(id, stream);
}

void Ledger::observe(std::shared_ptr<LedgerObserver> observer) {
  std::lock_guard lock(mutex_);
  observer_ = std::move(observer);
}

std::shared_ptr<LedgerObserver> Ledger::observer() const {
  std::lock_guard lock(mutex_);
  return observer_;
}

void Ledger::begin_launch() {
  std::lock_guard lock(mutex_);
  ++open_launches_;
}

void Ledger::end_launch() {
  std::lock_guard lock(mutex_);
  FF_CHECK(open_launches_ > 0, "no launch is open");
  if (--open_launches_ == 0) ++next_launch_;
}

bool Ledger::launch_open() const {
  std::lock_guard lock(mutex_);
  return open_launches_ > 0;
}

void Ledger::set_position(int stage, int micro_batch, std::string_view action) {
  {
    std::lock_guard lock(mutex_);
    stage_ = stage;
    micro_batch_ = micro_batch;
  }
  if (const auto seen = observer()) seen->action(action, stage, micro_batch);
}

void Ledger::set_activity(std::string what) {
  if (const auto seen = observer()) seen->activity(what);
  std::lock_guard lock(mutex_);
  activity_ = std::move(what);
}

std::string Ledger::activity() const {
  std::lock_guard lock(mutex_);
  return activity_;
}

std::vector<LedgerRecord> Ledger::records() const {
  std::lock_guard lock(mutex_);
  auto all = ring_;
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return all;
}

std::map<std::string, GroupTotals> Ledger::totals() const {
  std::lock_guard lock(mutex_);
  return totals_;
}

void Ledger::reset_totals() {
  std::lock_guard lock(mutex_);
  totals_.clear();
}

}  // namespace fivefold
