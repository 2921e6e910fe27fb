// Every operation is made of nonblocking messages and steps between them; a rank that waits for one moves all
// of its operations on, so no wait depends on the order in which another rank waits. Sums gather each rank's
// part from all, add in rank order, and (all_reduce) share the result: the same bits as over threads.
#include "parallel/comm/mpi_comm.h"

#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <limits>
#include <list>
#include <numeric>
#include <thread>

#include "core/philox.h"
#include "parallel/comm/mpi_check.h"
#include "parallel/comm/rank_sum.h"

namespace fivefold {

namespace {

// One transfer under way: messages, then the step that follows when all of them are done, which may post
// more.
struct Operation {
  std::vector<MPI_Request> requests;
  std::vector<std::int64_t> expected_bytes;  // per request; -1 where nothing is received
  std::function<void()> next;
  std::vector<Tensor> operands;  // alive as long as messages are
  LedgerId record = 0;
  bool done = false;
};
using OperationPtr = std::shared_ptr<Operation>;

constexpr int kEagerPolls = 100;

// What all communicators of a rank share.
class MpiRank {
 public:
  MpiRank(const MpiSession& session, const MpiOptions& options)
      : ledger_(std::make_shared<Ledger>(session.world_rank(), options.ledger_capacity, options.keep_all)),
        memory_(options.memory ? options.memory : make_cpu_memory()),
        message_bytes_(options.message_bytes),
        world_rank_(session.world_rank()) {
    FF_CHECK(0 < message_bytes_ && message_bytes_ <= std::numeric_limits<int>::max(), "messages of ",
             message_bytes_);
  }
  const std::shared_ptr<Ledger>& ledger() const { return ledger_; }
  std::int64_t message_bytes() const { return message_bytes_; }
  int world_rank() const { return world_rank_; }

  Tensor stage(std::int64_t count, DType dtype) {
    CpuStream inline_stream;
    return empty(*memory_, {count}, dtype, Tag::communication, inline_stream);
  }
  void start(OperationPtr operation) {
    ledger_->started(operation->record);
    if (!advance(*operation)) pending_.push_back(std::move(operation));
  }
  void wait(const Operation& operation) {
    FF_CHECK(!ledger_->launch_open(), "a transfer is waited for inside its Group, before it was launched");
    for (int polls = 0; !operation.done; ++polls) {
      if (polls > kEagerPolls) std::this_thread::yield();  // there may be more ranks than cores
      poll();
    }
  }

 private:
  void poll() {
    for (auto at = pending_.begin(); at != pending_.end();)
      at = advance(**at) ? pending_.erase(at) : std::next(at);
  }
  // True when the operation has ended.
  bool advance(Operation& operation) {
    while (messages_done(operation)) {
      operation.requests.clear();
      operation.expected_bytes.clear();
      if (auto step = std::exchange(operation.next, nullptr)) {
        step();
        continue;
      }
      operation.operands.clear();
      ledger_->done(operation.record);
      return operation.done = true;
    }
    return false;
  }
  bool messages_done(Operation& operation) {
    const auto n = operation.requests.size();
    statuses_.resize(std::max(statuses_.size(), n));
    int done = 0;
    const int code = MPI_Testall(static_cast<int>(n), operation.requests.data(), &done, statuses_.data());
    if (code == MPI_ERR_IN_STATUS)
      for (std::size_t i = 0; i < n; ++i)
        if (statuses_[i].MPI_ERROR != MPI_ERR_PENDING) FF_MPI(statuses_[i].MPI_ERROR);
    FF_MPI(code);
    for (std::size_t i = 0; done && i < n; ++i) check_received(statuses_[i], operation.expected_bytes[i]);
    return done != 0;
  }
  static void check_received(const MPI_Status& status, std::int64_t expected) {
    if (expected < 0) return;
    int received = 0;
    FF_MPI(MPI_Get_count(&status, MPI_BYTE, &received));
    FF_CHECK_EQ(received, expected, "bytes from group rank ", status.MPI_SOURCE,
                ": the ranks disagree about a transfer");
  }

  std::shared_ptr<Ledger> ledger_;
  std::shared_ptr<Memory> memory_;
  std::int64_t message_bytes_;
  int world_rank_;
  std::list<OperationPtr> pending_;
  std::vector<MPI_Status> statuses_;  // scratch of messages_done
};

// Equal parts of an operand but for trailing short or empty ones, as elements.
struct Parts {
  std::int64_t count, size;
  std::int64_t begin(int part) const { return std::min(count, part * size); }
  Tensor of(const Tensor& t, int part) const { return t.slice(begin(part), begin(part + 1) - begin(part)); }
};

class MpiCommunicator final : public Communicator {
 public:
  // Takes `comm` over; MPI_COMM_NULL for a group of one.
  MpiCommunicator(std::string name, const std::vector<int>& members, int rank, MPI_Comm comm,
                  std::shared_ptr<MpiRank> owner)
      : Communicator(std::move(name), members, rank, owner->ledger()), owner_(std::move(owner)), comm_(comm) {
    if (comm_ != MPI_COMM_NULL) FF_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  }
  ~MpiCommunicator() override {
    if (comm_ != MPI_COMM_NULL && std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
  }

  void abort(std::string_view why) noexcept override {
    std::fprintf(stderr, "rank %d: %.*s\n", owner_->world_rank(), static_cast<int>(why.size()), why.data());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

 private:
  Work do_all_reduce(const Tensor& inout, Reduce op, Stream&, TransferId id) override;
  Work do_all_gather(const Tensor& out, const Tensor& in, Stream&, TransferId id) override;
  Work do_reduce_scatter(const Tensor& out, const Tensor& in, Stream&, TransferId id) override;
  Work do_all_to_all(const Tensor& out, std::span<const std::int64_t> recv_rows, const Tensor& in,
                     std::span<const std::int64_t> send_rows, Stream&, TransferId id) override;
  Work do_send(const Tensor& data, int to, Stream&, TransferId id) override;
  Work do_recv(const Tensor& data, int from, Stream&, TransferId id) override;
  std::vector<std::string> do_gather_bytes(std::string_view mine, TransferId id) override;
  // Messages need no launch: they never wait for one another.
  void group_begin() override {}
  void group_end() override {}
  void group_cancel() noexcept override {}

  OperationPtr begin(TransferId id, std::vector<Tensor> operands) const;
  Work launch(OperationPtr operation) {
    owner_->start(operation);
    return Work([owner = owner_, operation = std::move(operation)](Stream&) { owner->wait(*operation); });
  }
  void post_send(Operation& operation, const Tensor& data, int to, int tag) const;
  void post_recv(Operation& operation, const Tensor& data, int from, int tag) const;
  // My part from everybody and their parts to them, then its sum (or max) into `out`.
  void post_reduce_scatter(Operation& operation, const Tensor& out, const Tensor& in, Parts parts, Reduce op,
                           int tag);
  void post_all_gather(Operation& operation, const Tensor& out, Parts parts, int tag) const;
  // All other members, each rank starting with its own successor, so that nobody is everybody's first.
  template <class F>
  void for_each_other(F&& f) const {
    for (int step = 1; step < size(); ++step) f((rank() + step) % size(), (rank() + size() - step) % size());
  }

  std::shared_ptr<MpiRank> owner_;
  MPI_Comm comm_;
};

constexpr int kPointToPoint = 0;
constexpr int kPhases = 2;
// Tags tell apart the collectives that may be under way at once; MPI promises 32767 of them.
int tag_of(TransferId id, int phase) { return 1 + static_cast<int>(id.sequence % 16'000) * kPhases + phase; }

void copy_part(const Tensor& to, const Tensor& from) {
  if (to.raw() != from.raw() && from.bytes() > 0)
    std::memcpy(to.raw(), from.raw(), static_cast<std::size_t>(from.bytes()));
}

OperationPtr MpiCommunicator::begin(TransferId id, std::vector<Tensor> operands) const {
  for (const auto& t : operands) FF_CHECK(t.device().kind == DeviceKind::cpu, "MPI moves host tensors");
  auto operation = std::make_shared<Operation>();
  operation->record = id.ledger;
  operation->operands = std::move(operands);
  return operation;
}

void MpiCommunicator::post_send(Operation& operation, const Tensor& data, int to, int tag) const {
  for (std::int64_t at = 0; at < data.bytes(); at += owner_->message_bytes()) {
    const auto bytes = std::min(owner_->message_bytes(), data.bytes() - at);
    operation.expected_bytes.push_back(-1);
    FF_MPI(MPI_Isend(data.raw() + at, static_cast<int>(bytes), MPI_BYTE, to, tag, comm_,
                     &operation.requests.emplace_back()));
  }
}

void MpiCommunicator::post_recv(Operation& operation, const Tensor& data, int from, int tag) const {
  for (std::int64_t at = 0; at < data.bytes(); at += owner_->message_bytes()) {
    const auto bytes = std::min(owner_->message_bytes(), data.bytes() - at);
    operation.expected_bytes.push_back(bytes);
    FF_MPI(MPI_Irecv(data.raw() + at, static_cast<int>(bytes), MPI_BYTE, from, tag, comm_,
                     &operation.requests.emplace_back()));
  }
}

void MpiCommunicator::post_reduce_scatter(Operation& operation, const Tensor& out, const Tensor& in,
                                          Parts parts, Reduce op, int tag) {
  const auto mine = parts.of(in, rank());
  const auto others = owner_->stage((size() - 1) * mine.count(), in.dtype());
  const auto from_rank = [=, me = rank()](int r) {
    return r == me ? mine : others.slice((r < me ? r : r - 1) * mine.count(), mine.count());
  };
  for_each_other([&](int to, int from) {
    post_recv(operation, from_rank(from), from, tag);
    post_send(operation, parts.of(in, to), to, tag);
  });
  operation.next = [=, n = size(), then = std::move(operation.next)] {
    std::vector<const std::byte*> values;
    for (int r = 0; r < n; ++r) values.push_back(from_rank(r).raw());
    reduce_in_rank_order(out.raw(), values, in.dtype(), out.count(), op);
    if (then) then();
  };
}

void MpiCommunicator::post_all_gather(Operation& operation, const Tensor& out, Parts parts, int tag) const {
  for_each_other([&](int to, int from) {
    post_recv(operation, parts.of(out, from), from, tag);
    post_send(operation, parts.of(out, rank()), to, tag);
  });
}

Work MpiCommunicator::do_all_reduce(const Tensor& inout, Reduce op, Stream&, TransferId id) {
  auto operation = begin(id, {inout});
  const Parts parts{inout.count(), ceil_div(inout.count(), size())};
  // Raw pointer: the step belongs to the operation it works on.
  operation->next = [=, this, into = operation.get()] {
    post_all_gather(*into, inout, parts, tag_of(id, 1));
  };
  post_reduce_scatter(*operation, parts.of(inout, rank()), inout, parts, op, tag_of(id, 0));
  return launch(std::move(operation));
}

Work MpiCommunicator::do_all_gather(const Tensor& out, const Tensor& in, Stream&, TransferId id) {
  auto operation = begin(id, {out, in});
  const Parts parts{out.count(), in.count()};
  copy_part(parts.of(out, rank()), in);
  post_all_gather(*operation, out, parts, tag_of(id, 0));
  return launch(std::move(operation));
}

Work MpiCommunicator::do_reduce_scatter(const Tensor& out, const Tensor& in, Stream&, TransferId id) {
  auto operation = begin(id, {out, in});
  post_reduce_scatter(*operation, out, in, {in.count(), out.count()}, Reduce::sum, tag_of(id, 0));
  return launch(std::move(operation));
}

Work MpiCommunicator::do_all_to_all(const Tensor& out, std::span<const std::int64_t> recv_rows,
                                    const Tensor& in, std::span<const std::int64_t> send_rows, Stream&,
                                    TransferId id) {
  auto operation = begin(id, {out, in});
  const auto part = [](const Tensor& t, std::span<const std::int64_t> rows, int r) {
    const auto before = rows.first(static_cast<std::size_t>(r));
    const auto first = std::accumulate(before.begin(), before.end(), std::int64_t{0});
    return t.rows(first, first + rows[static_cast<std::size_t>(r)]);
  };
  copy_part(part(out, recv_rows, rank()), part(in, send_rows, rank()));
  for_each_other([&](int to, int from) {
    post_recv(*operation, part(out, recv_rows, from), from, tag_of(id, 0));
    post_send(*operation, part(in, send_rows, to), to, tag_of(id, 0));
  });
  return launch(std::move(operation));
}

Work MpiCommunicator::do_send(const Tensor& data, int to, Stream&, TransferId id) {
  auto operation = begin(id, {data});
  post_send(*operation, data, to, kPointToPoint);
  return launch(std::move(operation));
}

Work MpiCommunicator::do_recv(const Tensor& data, int from, Stream&, TransferId id) {
  auto operation = begin(id, {data});
  post_recv(*operation, data, from, kPointToPoint);
  return launch(std::move(operation));
}

std::vector<std::string> MpiCommunicator::do_gather_bytes(std::string_view mine, TransferId id) {
  const auto n = static_cast<std::size_t>(size());
  std::vector<int> lengths(n), starts(n);
  FF_CHECK(mine.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max()), "small values only");
  const auto length = static_cast<int>(mine.size());
  std::string all;
  auto operation = begin(id, {});
  operation->expected_bytes = {-1};
  FF_MPI(MPI_Iallgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm_,
                        &operation->requests.emplace_back()));
  operation->next = [&, into = operation.get()] {
    std::partial_sum(lengths.begin(), lengths.end() - 1, starts.begin() + 1);
    const auto total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    FF_CHECK(total <= std::numeric_limits<int>::max(), "small values only");
    all.resize(static_cast<std::size_t>(total));
    into->expected_bytes = {-1};
    FF_MPI(MPI_Iallgatherv(mine.data(), length, MPI_BYTE, all.data(), lengths.data(), starts.data(), MPI_BYTE,
                           comm_, &into->requests.emplace_back()));
  };
  owner_->start(operation);
  owner_->wait(*operation);
  std::vector<std::string> result;
  for (std::size_t r = 0; r < n; ++r)
    result.push_back(all.substr(static_cast<std::size_t>(starts[r]), static_cast<std::size_t>(lengths[r])));
  return result;
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(const MpiSession& session, const MpiOptions& options)
      : rank_(std::make_shared<MpiRank>(session, options)) {
    std::vector<int> all(static_cast<std::size_t>(session.world_size()));
    std::iota(all.begin(), all.end(), 0);
    world_ = create("world", all);
  }
  Communicator& world() override { return *world_; }
  std::string_view kind() const override { return "mpi"; }
  std::unique_ptr<Communicator> create(const std::string& name, const std::vector<int>& members) override {
    const auto me = std::find(members.begin(), members.end(), rank_->world_rank());
    FF_CHECK(me != members.end(), "world rank ", rank_->world_rank(), " is not a member of ", name);
    const auto unique = names_.unique(name, members);
    const auto comm = members.size() == 1 ? MPI_COMM_NULL : split(unique, members);
    return std::make_unique<MpiCommunicator>(unique, members, static_cast<int>(me - members.begin()), comm,
                                             rank_);
  }

 private:
  // Collective over the members only.
  static MPI_Comm split(const std::string& name, const std::vector<int>& members) {
    MPI_Group world, group;
    MPI_Comm comm = MPI_COMM_NULL;
    FF_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
    FF_MPI(MPI_Group_incl(world, static_cast<int>(members.size()), members.data(), &group));
    FF_MPI(MPI_Comm_create_group(MPI_COMM_WORLD, group, static_cast<int>(hash_name(name) % 32'767), &comm));
    FF_MPI(MPI_Group_free(&group));
    FF_MPI(MPI_Group_free(&world));
    return comm;
  }

  std::shared_ptr<MpiRank> rank_;
  GroupNames names_;
  std::unique_ptr<Communicator> world_;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(const MpiSession& session, const MpiOptions& options) {
  return std::make_unique<MpiTransport>(session, options);
}

}  // namespace fivefold
