// The state that ranks-as-threads share: the launch queues, who waits, who failed. All blocking of the thread
// transport happens in ThreadMatcher::wait.
#pragma once
#include <condition_variable>
#include <exception>

#include "parallel/comm/thread_device.h"
#include "parallel/comm/thread_world.h"

namespace fivefold {

// One transfer of a launch that is about to be queued.
struct PendingTransfer {
  TransferKey key;
  TransferSignature signature;
  std::size_t sides = 0, side_index = 0;
  TransferSide side;
};

// Thread safe; each rank calls with its own world rank from its own thread.
class ThreadMatcher {
 public:
  ThreadMatcher(const ThreadOptions& options, std::vector<std::shared_ptr<Ledger>> ledgers);

  int ranks() const { return static_cast<int>(ledgers_.size()); }
  const std::shared_ptr<Ledger>& ledger(int rank) const { return ledgers_[static_cast<std::size_t>(rank)]; }
  // The one object that stands for equal groups of all ranks.
  const TransferGroup* group(const std::string& name, const std::vector<int>& members);

  // Queues `launch` and moves the data of whatever can run now. Throws when the world has failed, and fails
  // it when the ends of a transfer disagree.
  void queue(int rank, std::shared_ptr<Launch> launch, std::vector<PendingTransfer> parts);
  // Returns when `launch` is done, moving data of others meanwhile. Throws when it cannot come to that.
  void wait(int rank, const Launch& launch);
  // A rank that unwinds takes back what it brought to device work. Returns when no device uses its operands
  // any more: a transfer that has not begun never will.
  void withdraw(Transfer& transfer, std::size_t side_index) noexcept;
  // The first call counts: everybody else's transfers throw from now on.
  void fail(int rank, std::exception_ptr why) noexcept;
  // The rank's body has returned.
  void finish(int rank);
  // After all ranks have ended: throws the first failure, or an Error for transfers left without partners.
  void rethrow() const;

 private:
  struct Waiter {
    std::condition_variable changed;
    bool waiting = false;
  };
  using Lock = std::unique_lock<std::mutex>;
  using Ready = std::vector<std::shared_ptr<Transfer>>;

  void check_alive() const;
  void join(int rank, Launch& launch, PendingTransfer part);
  void run(int rank, Ready ready);
  bool start(int rank, Transfer& transfer);
  bool claim(Transfer& transfer);
  void release_claim(Transfer& transfer) noexcept;
  void offer(const std::shared_ptr<Transfer>& transfer);
  void complete(Transfer& transfer, Ready& ready);
  std::shared_ptr<Transfer> take_runnable();
  bool help(int rank, Lock& lock);
  [[noreturn]] void fail_and_throw(int rank, Lock& lock, const std::string& why);
  std::string describe_stall(int rank, std::chrono::milliseconds waited) const;

  ThreadOptions options_;
  std::vector<std::shared_ptr<Ledger>> ledgers_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<TransferGroup>> groups_;
  DeviceStreams device_streams_;
  LaunchQueues queues_;
  std::vector<Waiter> waiters_;
  Ready runnable_;  // transfers with tasks to take
  std::exception_ptr failure_;
  int failed_rank_ = -1;
  std::string failure_text_;
};

}  // namespace fivefold
