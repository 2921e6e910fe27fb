// Every operation is made of nonblocking messages and steps between them. Sums gather each rank's part from
// all, add in rank order, and (all_reduce) share the result: the same bits as over threads. Operands on a GPU
// are copied to the host before the first message and back after the last.
#include "parallel/comm/mpi_comm.h"

#include <cstdio>
#include <limits>
#include <numeric>

#include "core/copy.h"
#include "core/philox.h"
#include "parallel/comm/mpi_check.h"
#include "parallel/comm/mpi_rank.h"
#include "parallel/comm/rank_sum.h"

namespace fivefold {

namespace {

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
  Work do_all_reduce(const Tensor& inout, Reduce op, Stream& producer, TransferId id) override;
  Work do_all_gather(const Tensor& out, const Tensor& in, Stream& producer, TransferId id) override;
  Work do_reduce_scatter(const Tensor& out, const Tensor& in, Stream& producer, TransferId id) override;
  Work do_all_to_all(const Tensor& out, std::span<const std::int64_t> recv_rows, const Tensor& in,
                     std::span<const std::int64_t> send_rows, Stream& producer, TransferId id) override;
  Work do_send(const Tensor& data, int to, Stream& producer, TransferId id) override;
  Work do_recv(const Tensor& data, int from, Stream& producer, TransferId id) override;
  std::vector<std::string> do_gather_bytes(std::string_view mine, TransferId id) override;
  // Messages need no launch: they never wait for one another.
  void group_begin() override {}
  void group_end() override {}
  void group_cancel() noexcept override {}

  // Posts the messages of an operation whose operands lie on the host.
  using Post = std::function<void(Operation& operation, const Tensor& out, const Tensor& in)>;
  // Either operand may be absent, and one a part of the other.
  Work launch(TransferId id, const Tensor& out, const Tensor& in, Stream& producer, const Post& post);
  Work launch_staged(TransferId id, const Tensor& out, const Tensor& in, Stream& producer, const Post& post);
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

// Tags tell apart the transfers that may be under way at once, since their messages need not be posted in
// order. MPI promises 32767 tags.
constexpr int kPhases = 2, kCollectives = 16'000, kMessages = 700;
int tag_of(TransferId id, int phase) {
  return static_cast<int>(id.sequence % kCollectives) * kPhases + phase;
}
int tag_of_message(TransferId id) {
  return kCollectives * kPhases + static_cast<int>(id.sequence % kMessages);
}

bool on_host(const Tensor& t) { return !t || t.device().kind == DeviceKind::cpu; }

Tensor rows_of(const Tensor& t, const std::vector<std::int64_t>& rows, int r) {
  const auto first = std::accumulate(rows.begin(), rows.begin() + r, std::int64_t{0});
  return t.rows(first, first + rows[static_cast<std::size_t>(r)]);
}

Work MpiCommunicator::launch(TransferId id, const Tensor& out, const Tensor& in, Stream& producer,
                             const Post& post) {
  if (!on_host(out) || !on_host(in)) return launch_staged(id, out, in, producer, post);
  auto operation = std::make_shared<Operation>();
  operation->record = id.ledger;
  operation->operands = {out, in};
  post(*operation, out, in);
  owner_->start(operation);
  return Work([owner = owner_, operation = std::move(operation)](Stream&) { owner->wait(*operation); });
}

// The staging stream copies `in` once the producer is done with it, and the result back when it has arrived.
Work MpiCommunicator::launch_staged(TransferId id, const Tensor& out, const Tensor& in, Stream& producer,
                                    const Post& post) {
  auto& staging = owner_->staging((out ? out : in).device());
  const auto host = staging.copies_of(out, in);
  staging.stream->wait(producer.record());
  ledger().device_begin(id.ledger, *staging.stream);
  if (in) copy_bytes(host.in, in, *staging.stream);
  auto operation = std::make_shared<Operation>();
  operation->record = id.ledger;
  operation->operands = {host.out, host.in};
  operation->ready = staging.when_reached(staging.stream->record());
  // A raw pointer: the steps belong to the operation that they work on.
  operation->next = [=, this, &staging, own = operation.get()] {
    own->next = [=, this, &staging] {
      if (out) copy_bytes(out, host.out, *staging.stream);
      owner_->ledger()->device_end(id.ledger, *staging.stream);
      own->on_device = staging.stream->record();
      own->done = true;  // over for the host: nobody need look at it again for the ledger to know
    };
    post(*own, host.out, host.in);
  };
  owner_->start(operation);
  // The device's tensors stay with the Work, not with the operation, which may outlive their stream.
  return Work([=, &staging, owner = owner_, held = std::pair(out, in)](Stream& consumer) {
    owner->wait(*operation);
    if (consumer.device().kind == DeviceKind::cuda)
      consumer.wait(operation->on_device);
    else
      staging.stream->await(operation->on_device);
  });
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
  const auto others = owner_->room((size() - 1) * mine.count(), in.dtype());
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

Work MpiCommunicator::do_all_reduce(const Tensor& inout, Reduce op, Stream& producer, TransferId id) {
  const Parts parts{inout.count(), ceil_div(inout.count(), size())};
  return launch(id, inout, inout, producer, [=, this](Operation& operation, const Tensor& t, const Tensor&) {
    operation.next = [=, this, into = &operation, then = std::move(operation.next)] {
      into->next = then;
      post_all_gather(*into, t, parts, tag_of(id, 1));
    };
    post_reduce_scatter(operation, parts.of(t, rank()), t, parts, op, tag_of(id, 0));
  });
}

Work MpiCommunicator::do_all_gather(const Tensor& out, const Tensor& in, Stream& producer, TransferId id) {
  const Parts parts{out.count(), in.count()};
  return launch(id, out, in, producer,
                [=, this](Operation& operation, const Tensor& whole, const Tensor& own) {
                  CpuStream host;
                  copy_bytes(parts.of(whole, rank()), own, host);
                  post_all_gather(operation, whole, parts, tag_of(id, 0));
                });
}

Work MpiCommunicator::do_reduce_scatter(const Tensor& out, const Tensor& in, Stream& producer,
                                        TransferId id) {
  const Parts parts{in.count(), out.count()};
  return launch(id, out, in, producer,
                [=, this](Operation& operation, const Tensor& own, const Tensor& whole) {
                  post_reduce_scatter(operation, own, whole, parts, Reduce::sum, tag_of(id, 0));
                });
}

Work MpiCommunicator::do_all_to_all(const Tensor& out, std::span<const std::int64_t> recv_rows,
                                    const Tensor& in, std::span<const std::int64_t> send_rows,
                                    Stream& producer, TransferId id) {
  const std::vector<std::int64_t> sent(send_rows.begin(), send_rows.end()),
      received(recv_rows.begin(), recv_rows.end());
  return launch(id, out, in, producer,
                [=, this](Operation& operation, const Tensor& to_me, const Tensor& mine) {
                  CpuStream host;
                  copy_bytes(rows_of(to_me, received, rank()), rows_of(mine, sent, rank()), host);
                  for_each_other([&](int to, int from) {
                    post_recv(operation, rows_of(to_me, received, from), from, tag_of(id, 0));
                    post_send(operation, rows_of(mine, sent, to), to, tag_of(id, 0));
                  });
                });
}

Work MpiCommunicator::do_send(const Tensor& data, int to, Stream& producer, TransferId id) {
  return launch(id, {}, data, producer, [=, this](Operation& operation, const Tensor&, const Tensor& in) {
    post_send(operation, in, to, tag_of_message(id));
  });
}

Work MpiCommunicator::do_recv(const Tensor& data, int from, Stream& producer, TransferId id) {
  return launch(id, data, {}, producer, [=, this](Operation& operation, const Tensor& out, const Tensor&) {
    post_recv(operation, out, from, tag_of_message(id));
  });
}

std::vector<std::string> MpiCommunicator::do_gather_bytes(std::string_view mine, TransferId id) {
  const auto n = static_cast<std::size_t>(size());
  std::vector<int> lengths(n), starts(n);
  FF_CHECK(mine.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max()), "small values only");
  const auto length = static_cast<int>(mine.size());
  std::string all;
  auto operation = std::make_shared<Operation>();
  operation->record = id.ledger;
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
    const auto comm = members.size() == 1 ? MPI_COMM_NULL : make_comm(unique, members);
    return std::make_unique<MpiCommunicator>(unique, members, static_cast<int>(me - members.begin()), comm,
                                             rank_);
  }

 private:
  // Collective over the members only.
  static MPI_Comm make_comm(const std::string& name, const std::vector<int>& members) {
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
