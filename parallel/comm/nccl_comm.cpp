// A communicator over NCCL: each transfer waits on its own stream for the producer and is waited for by the
// consumer's, so no host waits. What lies on the host goes to the other transport's communicator of the same
// group.
#include "parallel/comm/nccl_comm.h"

#include <nccl.h>

#include <cstring>

#include "core/cuda.h"
#include "parallel/comm/device_work.h"
#include "parallel/comm/nccl_check.h"
#include "parallel/comm/nccl_rank.h"

namespace fivefold {

namespace {

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return ncclFloat64;
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::i32:
      return ncclInt32;
    default:
      fail(__FILE__, __LINE__, "NCCL does not add up", std::string(name_of(dtype)));
  }
}

std::size_t elements(const Tensor& t) { return static_cast<std::size_t>(t.count()); }
std::size_t bytes(const Tensor& t) { return static_cast<std::size_t>(t.bytes()); }

// `count` rows from `row` on, which moves behind them.
Tensor next_rows(const Tensor& t, std::int64_t& row, std::int64_t count) {
  row += count;
  return t.rows(row - count, row);
}

}  // namespace

class NcclCommunicator final : public Communicator {
 public:
  // `host` has the same members. `comm` comes later, since making it exchanges small values over this group.
  NcclCommunicator(Communicator& host, std::unique_ptr<Communicator> owned_host,
                   std::shared_ptr<NcclRank> owner)
      : Communicator(host.name(), host.members(), host.rank(), host.shared_ledger()),
        host_(host),
        owned_host_(std::move(owned_host)),
        owner_(std::move(owner)) {}
  ~NcclCommunicator() override {
    if (comm_) owner_->leave(comm_);
  }

  ncclComm_t handle() const { return comm_; }
  // Takes it over; null for a group of one.
  void attach(ncclComm_t comm) {
    comm_ = comm;
    if (comm_) stream_ = make_cuda_stream(owner_->device());
  }
  // Collective over the group: a communicator from an id that its first member gives out.
  void join() {
    ncclUniqueId id{};
    if (rank() == 0) FF_NCCL(ncclGetUniqueId(&id));
    const auto shared = broadcast_bytes({id.internal, sizeof(id.internal)}, 0);
    FF_CHECK_EQ(shared.size(), sizeof(id.internal));
    std::memcpy(id.internal, shared.data(), sizeof(id.internal));
    attach(owner_->join(size(), id, rank()));
  }

  void connect_neighbours() override;
  // NCCL's transfers end with the process.
  void abort(std::string_view why) noexcept override { host_.abort(why); }

 private:
  static bool on_host(const Tensor& t) { return t.device().kind == DeviceKind::cpu; }

  Work do_all_reduce(const Tensor& inout, Reduce op, Stream& producer, TransferId id) override;
  Work do_all_gather(const Tensor& out, const Tensor& in, Stream& producer, TransferId id) override;
  Work do_reduce_scatter(const Tensor& out, const Tensor& in, Stream& producer, TransferId id) override;
  Work do_all_to_all(const Tensor& out, std::span<const std::int64_t> recv_rows, const Tensor& in,
                     std::span<const std::int64_t> send_rows, Stream& producer, TransferId id) override;
  Work do_send(const Tensor& data, int to, Stream& producer, TransferId id) override;
  Work do_recv(const Tensor& data, int from, Stream& producer, TransferId id) override;
  std::vector<std::string> do_gather_bytes(std::string_view mine, TransferId id) override {
    return host_.do_gather_bytes(mine, id);
  }
  void group_begin() override { owner_->begin(); }
  void group_end() override { owner_->end(); }
  void group_cancel() noexcept override { owner_->cancel(); }

  Work all_reduce_max(const Tensor& inout, Stream& producer, TransferId id);
  // `call`: the NCCL calls, made when the launch is; `after`: what follows them on the stream.
  Work launch(TransferId id, Stream& producer, std::vector<Tensor> operands, std::function<void()> call,
              std::function<void()> after = {});
  cudaStream_t native() const { return static_cast<cudaStream_t>(stream_->native()); }

  Communicator& host_;
  std::unique_ptr<Communicator> owned_host_;
  std::shared_ptr<NcclRank> owner_;
  ncclComm_t comm_ = nullptr;
  std::shared_ptr<Stream> stream_;
};

Work NcclCommunicator::launch(TransferId id, Stream& producer, std::vector<Tensor> operands,
                              std::function<void()> call, std::function<void()> after) {
  for (const auto& t : operands)
    FF_CHECK(t.device() == (Device{DeviceKind::cuda, owner_->device()}),
             "NCCL moves tensors of this rank's GPU");
  auto transfer = std::make_shared<NcclTransfer>();
  stream_->wait(producer.record());
  ledger().device_begin(id.ledger, *stream_);
  *transfer = {.comm = comm_,
               .stream = stream_,
               .call = std::move(call),
               .after = std::move(after),
               .record = id.ledger,
               .begun = stream_->record()};
  owner_->add(transfer);
  return Work(
      [owner = owner_, transfer = std::move(transfer), operands = std::move(operands)](Stream& consumer) {
        FF_CHECK(transfer->launched, "a transfer is waited for inside its Group, before it was launched");
        owner->poll();
        if (consumer.device().kind == DeviceKind::cuda)
          consumer.wait(transfer->done);
        else
          transfer->stream->await(transfer->done);
      });
}

void NcclCommunicator::connect_neighbours() {
  if (!comm_) return;
  const auto t = empty(owner_->memory(), {4}, DType::u8, Tag::communication, *stream_);
  owner_->connect(comm_, [&] {
    for (const int step : {1, size() - 1}) {
      const int to = (rank() + step) % size(), from = (rank() + size() - step) % size();
      FF_NCCL(ncclSend(t.raw(), 1, ncclUint8, to, comm_, native()));
      FF_NCCL(ncclRecv(t.raw() + (step == 1 ? 1 : 2), 1, ncclUint8, from, comm_, native()));
    }
  });
}

Work NcclCommunicator::do_all_reduce(const Tensor& inout, Reduce op, Stream& producer, TransferId id) {
  if (on_host(inout)) return host_.do_all_reduce(inout, op, producer, id);
  if (op == Reduce::max && inout.dtype() != DType::i32) return all_reduce_max(inout, producer, id);
  return launch(id, producer, {inout}, [=, this] {
    FF_NCCL(ncclAllReduce(inout.raw(), inout.raw(), elements(inout), type_of(inout.dtype()),
                          op == Reduce::sum ? ncclSum : ncclMax, comm_, native()));
  });
}

// NCCL's maximum of floating numbers leaves out NaNs, so the values are gathered and compared here. Maxima
// are small: one number a row.
Work NcclCommunicator::all_reduce_max(const Tensor& inout, Stream& producer, TransferId id) {
  const auto all =
      empty(owner_->memory(), {size() * inout.count()}, inout.dtype(), Tag::communication, *stream_);
  const auto call = [=, this] {
    FF_NCCL(ncclAllGather(inout.raw(), all.raw(), bytes(inout), ncclUint8, comm_, native()));
  };
  const auto after = [=, this] {
    RankOperands operands{{inout.raw()}, {}};
    for (int r = 0; r < size(); ++r) operands.in.push_back(all.slice(r * inout.count(), inout.count()).raw());
    reduce_on_device(operands, inout.dtype(), inout.count(), Reduce::max, *stream_);
  };
  return launch(id, producer, {inout}, call, after);
}

Work NcclCommunicator::do_all_gather(const Tensor& out, const Tensor& in, Stream& producer, TransferId id) {
  if (on_host(out)) return host_.do_all_gather(out, in, producer, id);
  return launch(id, producer, {out, in}, [=, this] {
    FF_NCCL(ncclAllGather(in.raw(), out.raw(), bytes(in), ncclUint8, comm_, native()));
  });
}

Work NcclCommunicator::do_reduce_scatter(const Tensor& out, const Tensor& in, Stream& producer,
                                         TransferId id) {
  if (on_host(out)) return host_.do_reduce_scatter(out, in, producer, id);
  return launch(id, producer, {out, in}, [=, this] {
    FF_NCCL(
        ncclReduceScatter(in.raw(), out.raw(), elements(out), type_of(in.dtype()), ncclSum, comm_, native()));
  });
}

Work NcclCommunicator::do_all_to_all(const Tensor& out, std::span<const std::int64_t> recv_rows,
                                     const Tensor& in, std::span<const std::int64_t> send_rows,
                                     Stream& producer, TransferId id) {
  if (on_host(out)) return host_.do_all_to_all(out, recv_rows, in, send_rows, producer, id);
  const std::vector<std::int64_t> sent(send_rows.begin(), send_rows.end()),
      received(recv_rows.begin(), recv_rows.end());
  return launch(id, producer, {out, in}, [=, this] {
    std::int64_t in_row = 0, out_row = 0;
    for (int r = 0; r < size(); ++r) {
      const auto to = next_rows(in, in_row, sent[static_cast<std::size_t>(r)]);
      const auto from = next_rows(out, out_row, received[static_cast<std::size_t>(r)]);
      if (to.bytes() > 0) FF_NCCL(ncclSend(to.raw(), bytes(to), ncclUint8, r, comm_, native()));
      if (from.bytes() > 0) FF_NCCL(ncclRecv(from.raw(), bytes(from), ncclUint8, r, comm_, native()));
    }
  });
}

Work NcclCommunicator::do_send(const Tensor& data, int to, Stream& producer, TransferId id) {
  if (on_host(data)) return host_.do_send(data, to, producer, id);
  return launch(id, producer, {data},
                [=, this] { FF_NCCL(ncclSend(data.raw(), bytes(data), ncclUint8, to, comm_, native())); });
}

Work NcclCommunicator::do_recv(const Tensor& data, int from, Stream& producer, TransferId id) {
  if (on_host(data)) return host_.do_recv(data, from, producer, id);
  return launch(id, producer, {data},
                [=, this] { FF_NCCL(ncclRecv(data.raw(), bytes(data), ncclUint8, from, comm_, native())); });
}

namespace {

class NcclTransport final : public Transport {
 public:
  NcclTransport(Transport& host, int device, const NcclOptions& options)
      : host_(host),
        rank_(std::make_shared<NcclRank>(device, host.world().shared_ledger(), options.deadline_init)),
        world_(std::make_unique<NcclCommunicator>(host.world(), nullptr, rank_)) {
    world_->join();
  }
  Communicator& world() override { return *world_; }
  std::string_view kind() const override { return "nccl"; }
  void poll() override { rank_->check(); }
  std::unique_ptr<Communicator> create(const std::string& name, const std::vector<int>& members) override {
    auto made = over_host(host_.create(name, members));
    if (made->size() > 1) made->join();
    return made;
  }
  std::unique_ptr<Communicator> split(const std::string& name, const std::vector<int>& members) override {
    if (members.size() == 1) return create(name, members);  // so on every rank that has a group
    auto made = members.empty() ? nullptr : over_host(host_.create(name, members));
    auto* const comm = rank_->split(world_->handle(), color_of(members), made ? made->rank() : 0);
    if (made) made->attach(comm);
    return made;
  }

 private:
  std::unique_ptr<NcclCommunicator> over_host(std::unique_ptr<Communicator> host) const {
    auto& reference = *host;
    return std::make_unique<NcclCommunicator>(reference, std::move(host), rank_);
  }
  // Groups are disjoint, so their smallest world rank tells them apart.
  static int color_of(const std::vector<int>& members) {
    return members.empty() ? -1 : *std::min_element(members.begin(), members.end());
  }

  Transport& host_;
  std::shared_ptr<NcclRank> rank_;
  std::unique_ptr<NcclCommunicator> world_;
};

}  // namespace

bool nccl_available() { return true; }

std::string nccl_version() {
  int code = 0;
  FF_NCCL(ncclGetVersion(&code));
  return str(code / 10'000, '.', code / 100 % 100, '.', code % 100);
}

std::unique_ptr<Transport> make_nccl_transport(Transport& host, int device, const NcclOptions& options) {
  return std::make_unique<NcclTransport>(host, device, options);
}

}  // namespace fivefold
