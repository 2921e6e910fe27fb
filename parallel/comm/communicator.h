// One stream-ordered contract for all transports (threads of one process, MPI, NCCL). Every transfer is
// recorded in the rank's ledger here, so no transport can forget it, and a group of size 1 is the identity
// here, so no caller asks.
#pragma once
#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "parallel/comm/ledger.h"

namespace fivefold {

// Handle of one transfer. Holds the transfer's tensors until it is waited for, so their memory cannot be
// reused while the transfer runs. Must be waited for exactly once; after an unwaited one was dropped outside
// of unwinding, the next use of its communicator throws (a bug in the caller).
class Work {
 public:
  Work() = default;  // already done
  explicit Work(std::function<void(Stream&)> wait) : wait_(std::move(wait)) {}
  Work(Work&& other) noexcept
      : wait_(std::exchange(other.wait_, nullptr)), dropped_(std::move(other.dropped_)) {}
  Work& operator=(Work&& other) noexcept {
    drop();
    wait_ = std::exchange(other.wait_, nullptr);
    dropped_ = std::move(other.dropped_);
    return *this;
  }
  ~Work() { drop(); }
  // Work queued on `consumer` after this call sees the result. Blocks the host for host memory only.
  void wait(Stream& consumer) {
    if (auto wait = std::exchange(wait_, nullptr)) wait(consumer);
  }

 private:
  friend class Communicator;
  void drop() noexcept {
    if (wait_ && dropped_ && std::uncaught_exceptions() == 0) *dropped_ = true;
  }

  std::function<void(Stream&)> wait_;
  std::shared_ptr<std::atomic<bool>> dropped_;
};

enum class Reduce : std::uint8_t { sum, max };
std::string_view name_of(Reduce op);

// What a transport learns of a transfer besides its operands.
struct TransferId {
  LedgerId ledger = 0;
  std::int64_t sequence = 0;  // equal at all ends (see LedgerRecord)
};

// A set of ranks that exchange tensors. All members make the same calls in the same order with equal sizes
// and dtypes. Tensors are contiguous. Each transfer starts after the work already queued on `producer`; its
// inputs must not change and its outputs must not be read before Work::wait.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }  // of this process within the group
  int size() const { return static_cast<int>(members_.size()); }
  const std::vector<int>& members() const { return members_; }  // world ranks in group order
  const std::string& name() const { return name_; }             // e.g. "tp", "shard_cp/weights", for people
  Ledger& ledger() const { return *ledger_; }
  const std::shared_ptr<Ledger>& shared_ledger() const { return ledger_; }

  // In place. f64, f32, bf16, i32; i32 sums wrap. A NaN on any rank is a NaN in the sum and in the max. All
  // members hold the same bits. Threads and MPI add in rank order starting from rank 0, bf16 in f32 with one
  // rounding; NCCL adds in an order of its own and rounds bf16 at each step.
  [[nodiscard]] Work all_reduce(const Tensor& inout, Reduce op, Stream& producer);
  // out = the members' `in` one after another: out.count == size * in.count. `in` may be the own part of
  // `out`.
  [[nodiscard]] Work all_gather(const Tensor& out, const Tensor& in, Stream& producer);
  // out = this rank's part of the sum of the members' `in`: in.count == size * out.count. `out` may be the
  // own part of `in`. Adds like all_reduce.
  [[nodiscard]] Work reduce_scatter(const Tensor& out, const Tensor& in, Stream& producer);
  // Rows of dim 0: the first send_rows[0] of `in` go to rank 0, the next to rank 1, ...; `out` likewise by
  // sender. recv_rows[r] must equal what r sends here (callers exchange counts before). `in` and `out` do not
  // overlap.
  [[nodiscard]] Work all_to_all(const Tensor& out, std::span<const std::int64_t> recv_rows, const Tensor& in,
                                std::span<const std::int64_t> send_rows, Stream& producer);
  // Point to point, matched in order per (sender, receiver). To oneself is an error.
  [[nodiscard]] Work send(const Tensor& data, int to, Stream& producer);
  [[nodiscard]] Work recv(const Tensor& data, int from, Stream& producer);

  // Collective. Readies messages between neighbours in group order, the last and the first among them. A
  // transport that connects ranks in the first message between them would hold up that whole launch until
  // both ends are there, and so a Group whose other parts could go on.
  virtual void connect_neighbours() {}

  // Host-side exchange of small plain values; blocks, so not inside a Group. Lengths may differ. Result: one
  // string of bytes per member.
  std::vector<std::string> gather_bytes(std::string_view mine);
  // Root's bytes on every member.
  std::string broadcast_bytes(std::string_view mine, int root);
  void barrier() { gather_bytes({}); }

  // Wakes every rank of the world that waits in any transfer with an Error. Never throws, never blocks.
  virtual void abort(std::string_view why) noexcept = 0;

 protected:
  // `rank` is the index of this process in `members`.
  Communicator(std::string name, std::vector<int> members, int rank, std::shared_ptr<Ledger> ledger);

  // Transports implement these for size > 1; shapes are checked and recorded already.
  virtual Work do_all_reduce(const Tensor& inout, Reduce op, Stream& producer, TransferId id) = 0;
  virtual Work do_all_gather(const Tensor& out, const Tensor& in, Stream& producer, TransferId id) = 0;
  virtual Work do_reduce_scatter(const Tensor& out, const Tensor& in, Stream& producer, TransferId id) = 0;
  virtual Work do_all_to_all(const Tensor& out, std::span<const std::int64_t> recv_rows, const Tensor& in,
                             std::span<const std::int64_t> send_rows, Stream& producer, TransferId id) = 0;
  virtual Work do_send(const Tensor& data, int to, Stream& producer, TransferId id) = 0;
  virtual Work do_recv(const Tensor& data, int from, Stream& producer, TransferId id) = 0;
  virtual std::vector<std::string> do_gather_bytes(std::string_view mine, TransferId id) = 0;
  friend class Group;
  friend class NcclCommunicator;  // hands what lies on the host to another transport's communicator
  virtual void group_begin() = 0;
  virtual void group_end() = 0;              // launches when it closes the outermost scope
  virtual void group_cancel() noexcept = 0;  // closes a scope while unwinding: launches nothing

 private:
  TransferId record(CommOp op, std::int64_t bytes, std::int64_t sent_bytes, int peer = -1);
  std::int64_t next_sequence(CommOp op, int peer);
  Work guarded(Work work) const;
  void check_peer(CommOp op, int peer) const;

  std::string name_;
  std::vector<int> members_;
  int rank_;
  std::shared_ptr<Ledger> ledger_;
  std::int64_t collectives_ = 0;
  std::map<int, std::int64_t> sends_, recvs_;  // by peer
  std::shared_ptr<std::atomic<bool>> dropped_ = std::make_shared<std::atomic<bool>>(false);
};

// Transfers made while a Group is alive launch together when it ends, as one operation whose parts may
// complete in any order (ring send + receive, the gathers of a unit). Scopes nest, also over several
// communicators of one rank; the outermost launches. Their Work is waited for after.
class Group {
 public:
  explicit Group(Communicator& comm) : comm_(comm), unwinding_(std::uncaught_exceptions()) {
    comm_.ledger().begin_launch();
    comm_.group_begin();
  }
  ~Group() noexcept(false) {
    comm_.ledger().end_launch();
    if (std::uncaught_exceptions() > unwinding_)
      comm_.group_cancel();
    else
      comm_.group_end();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

 private:
  Communicator& comm_;
  int unwinding_;
};

// Makes communicators. One per rank; every rank makes its groups in the same global order.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual Communicator& world() = 0;
  // Collective over `members` only: world ranks in group order, this rank among them. A name used before over
  // the same members gets "#2", "#3", ... appended, so that ledgers can tell the groups apart.
  virtual std::unique_ptr<Communicator> create(const std::string& name, const std::vector<int>& members) = 0;
  // Collective over the world: every rank calls with the members of its own group, or with none and gets
  // null. The groups of one call are disjoint and equal in size. Cheaper than `create` where the transport
  // can split.
  virtual std::unique_ptr<Communicator> split(const std::string& name, const std::vector<int>& members) {
    return members.empty() ? nullptr : create(name, members);
  }
  virtual std::string_view kind() const = 0;  // "thread", "mpi", "nccl"
  // Tells the ledger which transfers have ended, where nobody else does it in time. Thread safe. Throws what
  // the transport finds broken.
  virtual void poll() {}
};

// Gives the names that Transport::create promises.
class GroupNames {
 public:
  std::string unique(const std::string& name, const std::vector<int>& members);

 private:
  std::map<std::pair<std::string, std::vector<int>>, int> used_;
};

}  // namespace fivefold
