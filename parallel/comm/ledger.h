// What a rank did with its communicators: a ring buffer of the last transfers and totals per group. Hang
// reports, the launch-order check and the bytes-per-axis figures read it.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/stream.h"

namespace fivefold {

enum class CommOp : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, send, recv, host };
std::string_view name_of(CommOp op);

using LedgerId = std::int64_t;  // number of the record on this rank, from 0

// Times are steady-clock nanoseconds, 0 = not yet.
struct LedgerRecord {
  LedgerId id = 0;
  std::int64_t launch = 0;   // number of the launch on this rank; the transfers of one Group share it
  std::string group;         // name of the communicator
  std::vector<int> members;  // its world ranks
  std::int64_t sequence =
      0;  // equal at all ends: n-th collective of the group, or n-th transfer from sender to receiver
  CommOp op = CommOp::host;
  std::int64_t bytes = 0;       // of this rank's larger operand
  std::int64_t sent_bytes = 0;  // this rank puts on the wire under the ring convention (see communicator.cpp)
  int rank = -1;                // of this process within the group
  int peer = -1;                // group rank of the other side of send and recv
  int stage = -1, micro_batch = -1;
  std::int64_t enqueued_ns = 0, started_ns = 0, done_ns = 0;
};

struct GroupTotals {
  std::int64_t transfers = 0, sent_bytes = 0;
};

// Is told what a rank does while its ledger learns it (tracing). Calls come from any thread, those of one
// rank's activities and actions in their order.
class LedgerObserver {
 public:
  virtual ~LedgerObserver() = default;
  virtual void activity(std::string_view what) = 0;                            // see Ledger::set_activity
  virtual void action(std::string_view what, int stage, int micro_batch) = 0;  // see Ledger::set_position
  // The transfer is done, as the host sees it; all times are set.
  virtual void transfer(const LedgerRecord& record) = 0;
  // The work of a transfer on a device lies in `stream` between the points of two calls.
  virtual void device_begin(const LedgerRecord& record, Stream& stream) = 0;
  virtual void device_end(LedgerId id, Stream& stream) = 0;
};

// Thread safe: the rank writes, a watchdog reads.
class Ledger {
 public:
  // `keep_all`: remember every record, not only the last `capacity` (tests of launch order).
  explicit Ledger(int world_rank, std::size_t capacity = 256, bool keep_all = false);
  LedgerId enqueue(LedgerRecord record);  // fills id, launch, stage, micro_batch, enqueued_ns
  void started(LedgerId id);
  void done(LedgerId id);
  // What a transport that queues transfers on a device says around their work; for the observer alone.
  void device_begin(LedgerId id, Stream& stream);
  void device_end(LedgerId id, Stream& stream);
  // Records between the two share one launch number. Pairs nest; the outermost counts.
  void begin_launch();
  void end_launch();
  bool launch_open() const;
  // What the rank is working on, attached to the records that follow (pipeline stage, micro-batch); and the
  // action, for the observer: empty between actions.
  void set_position(int stage, int micro_batch, std::string_view action = {});
  // What the host does between transfers, e.g. "data/next_batch"; shown when this rank is the one others wait
  // for.
  void set_activity(std::string what);
  std::string activity() const;
  std::vector<LedgerRecord> records() const;          // oldest first
  std::map<std::string, GroupTotals> totals() const;  // by group name, since construction or reset_totals
  void reset_totals();
  // At most one; null: none.
  void observe(std::shared_ptr<LedgerObserver> observer);
  int world_rank() const { return world_rank_; }

 private:
  LedgerRecord* find(LedgerId id);
  std::shared_ptr<LedgerObserver> observer() const;

  int world_rank_;
  std::size_t capacity_;
  bool keep_all_;
  mutable std::mutex mutex_;
  std::vector<LedgerRecord> ring_;
  LedgerId next_ = 0;
  std::int64_t next_launch_ = 0;
  int open_launches_ = 0;
  int stage_ = -1, micro_batch_ = -1;
  std::string activity_;
  std::map<std::string, GroupTotals> totals_;
  std::shared_ptr<LedgerObserver> observer_;
};

}  // namespace fivefold
