// What all NCCL communicators of a rank share: its handles, the open Group, the transfers whose end the
// ledger has not been told, and the abort of all of it together. Included by nccl_*.cpp only.
#pragma once
#include <nccl.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "core/memory.h"
#include "core/stream.h"
#include "parallel/comm/ledger.h"

namespace fivefold {

// One transfer on a communicator's stream.
struct NcclTransfer {
  ncclComm_t comm = nullptr;
  std::shared_ptr<Stream> stream;
  std::function<void()> call;   // the NCCL calls
  std::function<void()> after;  // queues what follows them on the stream; may be empty
  LedgerId record = 0;
  Event begun, done;  // `done` is there once launched
  bool launched = false, told_begun = false;
};

// Communicators are nonblocking: after each call the host polls until NCCL has taken it, so that an error or
// a deadline ends the wait. One thread uses it; another may poll and check.
class NcclRank {
 public:
  NcclRank(int device, std::shared_ptr<Ledger> ledger, std::chrono::milliseconds deadline_init);
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  int device() const { return device_; }
  Memory& memory() { return *memory_; }

  // The communicator of `members` ranks that all of them ask for with one id.
  ncclComm_t join(int members, const ncclUniqueId& id, int rank);
  // Collective over `parent`; null with a negative colour.
  ncclComm_t split(ncclComm_t parent, int color, int key);
  // Collective over the members: everything launched on it ends first. While unwinding it is aborted.
  void leave(ncclComm_t comm) noexcept;

  // Makes the calls as one launch, which no ledger sees.
  void connect(ncclComm_t comm, const std::function<void()>& calls);

  // Scopes nest; the outermost launches.
  void begin();
  void add(std::shared_ptr<NcclTransfer> transfer);
  void end();
  // Nothing of the Group is launched, and nothing later on.
  void cancel() noexcept;

  // Tells the ledger what has begun and ended. Throws what CUDA reports. Thread safe.
  void poll();
  // The same, and throws what NCCL found out behind the host's back, unless the host is in a call just now
  // and will learn of it there. Thread safe.
  void check();
  // Ends all communicators of this rank: transfers under way stop, later ones throw.
  void abort() noexcept;

 private:
  void settle(ncclComm_t comm, std::chrono::milliseconds limit);
  ncclResult_t state_of(ncclComm_t comm) const;
  void check_alive() const;
  void adopt(ncclComm_t comm);
  void launch_open();
  void call(std::span<const std::shared_ptr<NcclTransfer>> launch);

  int device_;
  std::shared_ptr<Ledger> ledger_;
  std::shared_ptr<Memory> memory_;
  std::chrono::milliseconds deadline_init_;
  bool aborted_ = false;
  int depth_ = 0;
  std::vector<std::shared_ptr<NcclTransfer>> open_;
  // Held from a call of NCCL until it is taken: even asking for errors completes calls, so two threads may
  // not.
  std::mutex calling_;
  std::set<ncclComm_t> comms_;
  std::mutex mutex_;  // of what follows
  std::deque<std::shared_ptr<NcclTransfer>> under_way_;
};

}  // namespace fivefold
