// What the thread transport moves for one transfer, cut into tasks that any waiting thread may run. Ranks
// share an address space, so every operand is read and written in place and nothing is staged.
#pragma once
#include <atomic>

#include "parallel/comm/launch_queue.h"

namespace fivefold {

// One participant's operands. Sends have `in` only, receives `out` only, an all_reduce the same tensor in
// both.
struct TransferSide {
  Tensor in, out;
  std::vector<std::int64_t> send_rows, recv_rows;  // all_to_all
  std::string bytes;                               // host
  std::shared_ptr<Ledger> ledger;
  LedgerId record = 0;
  Event ready;  // of operands on a device: all work before the transfer
};

// When the device work of a transfer is done: after all of these events, which `stream` can be asked for.
struct DeviceDone {
  std::vector<Event> events;
  Stream* stream = nullptr;
};

class DeviceStreams;

class ThreadTransfer final : public TransferPayload {
 public:
  // `sides` participants; point to point: 0 sends, 1 receives.
  explicit ThreadTransfer(std::size_t sides) : sides_(sides) {}
  // Each participant once, before the transfer is ready.
  void set_side(std::size_t index, TransferSide side) { sides_[index] = std::move(side); }

  // All sides are there: checks what only they together show, counts the tasks, marks the records as started.
  // Throws Error when the row counts of an all_to_all disagree. What lies on devices is queued there at once,
  // and has no tasks.
  void prepare(const Transfer& transfer, DeviceStreams& streams);
  std::int64_t tasks() const { return tasks_; }
  // Runs tasks until none is left to take. True for the one caller that finished the last of them.
  bool run();
  bool exhausted() const { return next_.load() >= tasks_; }
  // Drops the tensors (before anybody is told, so that memory marks do not depend on timing) and marks the
  // records done, but for device work, whose end each rank learns later.
  void release();
  // Of prepared device work; valid from then on.
  const DeviceDone& device_done() const { return device_done_; }
  // Guarded by the matcher's lock; only device work looks at it (see ThreadMatcher::withdraw).
  enum class State : std::uint8_t { waiting, running, finished, withdrawn } state = State::waiting;
  // Forgets the operands of a side.
  void drop_side(std::size_t index) { sides_[index].in = sides_[index].out = {}; }
  // Every side's bytes of a host transfer.
  std::vector<std::string> gathered() const;

 private:
  void count_tasks();
  void run_task(std::int64_t task);
  void reduce_part(std::int64_t first, std::int64_t count, std::size_t out_side, bool everywhere);
  void gather_part(std::size_t source, std::int64_t first, std::int64_t bytes);
  void scatter_rows_to(std::size_t receiver);
  void check_rows(const Transfer& transfer) const;

  std::vector<TransferSide> sides_;
  CommOp op_ = CommOp::host;
  Reduce reduce_ = Reduce::sum;
  DeviceDone device_done_;
  std::int64_t part_tasks_ = 0;  // tasks per equal part of the operand
  std::int64_t tasks_ = 0;
  std::atomic<std::int64_t> next_{0}, done_{0};
};

}  // namespace fivefold
