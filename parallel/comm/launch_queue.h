// The rule that makes hangs visible, without threads or data. Every rank has one in-order queue of launches
// over all its communicators, as NCCL has on one device with NCCL_LAUNCH_ORDER_IMPLICIT=1. A launch is one
// transfer or a Group of several; a transfer runs when each of its participants has it in the launch at the
// head of its queue; a launch leaves its queue when all its transfers are done. The thread transport runs on
// this, and the check of ledgers replays them through it, so both mean the same by "deadlock".
#pragma once
#include <compare>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"

namespace fivefold {

struct TransferGroup {
  std::string name;
  std::vector<int> members;  // world ranks in group order
};

// Equal at all ends of a transfer. `from` and `to` are group ranks, -1 for collectives.
struct TransferKey {
  const TransferGroup* group = nullptr;
  int from = -1, to = -1;
  std::int64_t sequence = 0;
  auto operator<=>(const TransferKey&) const = default;
};

// What the ends must agree on; -1 bytes: lengths may differ. Both ends of a point-to-point transfer say
// CommOp::send.
struct TransferSignature {
  CommOp op = CommOp::host;
  std::int64_t bytes = -1;
  std::optional<DType> dtype;
  std::optional<Reduce> reduce;
  DeviceKind device = DeviceKind::cpu;
  bool operator==(const TransferSignature&) const = default;
};
std::string to_string(const TransferSignature& signature);  // "all_reduce max f32 of 12 bytes"

// What the owner of a LaunchQueues hangs on a transfer.
struct TransferPayload {
  virtual ~TransferPayload() = default;
};

// One transfer, shared by the launches of its participants.
struct Transfer {
  Transfer(const TransferKey& transfer_key, const TransferSignature& first_signature, int first_rank);
  std::span<const int> participants() const;  // world ranks
  bool at_head_of(int world_rank) const;

  TransferKey key;
  TransferSignature signature;
  int first_rank;            // world rank that joined first
  std::vector<int> arrived;  // world ranks whose head launch holds it
  std::unique_ptr<TransferPayload> payload;

 private:
  std::array<int, 2> ends_;
};
std::string to_string(
    const Transfer& transfer);  // "send #2 from rank 0 to rank 1 of group pp {0,1}", world ranks

struct Launch {
  std::vector<std::shared_ptr<Transfer>> transfers;
  std::size_t remaining = 0;
  bool queued = false, done = false;
};

// Not thread safe.
class LaunchQueues {
 public:
  explicit LaunchQueues(int ranks)
      : queues_(static_cast<std::size_t>(ranks)), retired_(queues_.size(), false) {}

  // The transfer of `key`, made by the first that joins it. Throws Error, naming both ranks' values, on
  // another signature.
  std::shared_ptr<Transfer> join(int world_rank, const TransferKey& key, const TransferSignature& signature);
  // Queues a launch of joined transfers; appends to `ready` what may run now.
  void push(int world_rank, std::shared_ptr<Launch> launch, std::vector<std::shared_ptr<Transfer>>& ready);
  // A ready transfer has run: appends to `ready` what may run now, and to `finished` the ranks whose launch
  // ended.
  void complete(const Transfer& transfer, std::vector<std::shared_ptr<Transfer>>& ready,
                std::vector<int>& finished);
  // `world_rank` will push nothing more.
  void retire(int world_rank) { retired_[index(world_rank)] = true; }

  // Null when the rank's queue is empty.
  const Launch* head(int world_rank) const;
  // The first unfinished transfer of the rank's head launch; null when there is none.
  const Transfer* blocked_at(int world_rank) const;
  // Participants that do not have the transfer at their head.
  std::vector<int> missing(const Transfer& transfer) const;
  // Why the head of `world_rank` can never finish, in a sentence that names the transfers; nullopt while it
  // still may.
  std::optional<std::string> deadlock(int world_rank) const;

 private:
  static std::size_t index(int world_rank) { return static_cast<std::size_t>(world_rank); }
  void expose(int world_rank, std::vector<std::shared_ptr<Transfer>>& ready);
  std::string describe_wait(int waiting, int waited_for) const;
  struct Search;
  bool search(int world_rank, Search& state) const;

  std::vector<std::deque<std::shared_ptr<Launch>>> queues_;  // by world rank
  std::vector<bool> retired_;
  std::map<TransferKey, std::shared_ptr<Transfer>> open_;
};

}  // namespace fivefold
