// The communicators of ranks that are threads: they turn calls into pending transfers for the matcher.
#include "parallel/comm/thread_world.h"

#include <deque>
#include <numeric>
#include <thread>

#include "parallel/comm/thread_matcher.h"

namespace fivefold {

namespace {

// A transfer of a launch, whose `transfers` are there once it is queued.
struct Queued {
  std::shared_ptr<Launch> launch;
  std::size_t index = 0;
};

// A rank's open Group over all its communicators, the way to the matcher, and device work whose end the
// ledger has not been told.
class RankQueue {
 public:
  RankQueue(ThreadMatcher& matcher, int rank) : matcher_(matcher), rank_(rank) {}
  ThreadMatcher& matcher() { return matcher_; }
  int rank() const { return rank_; }

  // Where the next transfer will be.
  Queued reserve() {
    if (!open_) open_ = std::make_shared<Launch>();
    return {open_, pending_.size()};
  }
  void add(PendingTransfer transfer) {
    settle();
    pending_.push_back(std::move(transfer));
    if (depth_ == 0) flush();
  }
  void begin() { ++depth_; }
  void end() {
    if (--depth_ == 0 && open_) flush();
  }
  void cancel() noexcept {
    if (--depth_ > 0) return;
    open_.reset();
    pending_.clear();
  }
  void wait(const Launch& launch) { matcher_.wait(rank_, launch); }
  void on_device(const DeviceDone& done, LedgerId record) {
    under_way_.push_back({done, record});
    settle();
  }

 private:
  void flush() { matcher_.queue(rank_, std::exchange(open_, nullptr), std::exchange(pending_, {})); }

  // In the order of their launch; one that has not ended hides those behind it until it has.
  void settle() {
    const auto ended = [](const DeviceDone& done) {
      return std::all_of(done.events.begin(), done.events.end(),
                         [&](const Event& event) { return done.stream->reached(event); });
    };
    for (; !under_way_.empty() && ended(under_way_.front().done); under_way_.pop_front())
      matcher_.ledger(rank_)->done(under_way_.front().record);
  }

  struct UnderWay {
    DeviceDone done;
    LedgerId record;
  };

  ThreadMatcher& matcher_;
  int rank_;
  int depth_ = 0;
  std::deque<UnderWay> under_way_;
  std::shared_ptr<Launch> open_;
  std::vector<PendingTransfer> pending_;
};

// What a rank holds of a transfer: it keeps the operands (when they are freed must not depend on the
// partner's time), and takes them back from the devices when it unwinds, since its streams and memory go
// then.
class Ticket {
 public:
  Ticket(std::shared_ptr<RankQueue> queue, Queued queued, std::size_t side_index, TransferSide operands)
      : queue_(std::move(queue)),
        queued_(std::move(queued)),
        side_index_(side_index),
        in_(operands.in),
        out_(operands.out),
        record_(operands.record) {}
  ~Ticket() {
    if (done_ || std::uncaught_exceptions() == 0 || !on_device()) return;
    if (auto* transfer = this->transfer()) queue_->matcher().withdraw(*transfer, side_index_);
  }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  void wait(Stream& consumer) {
    queue_->wait(*queued_.launch);
    if (on_device()) {
      const auto& done = static_cast<const ThreadTransfer&>(*transfer()->payload).device_done();
      for (const auto& event : done.events)
        consumer.device().kind == DeviceKind::cuda ? consumer.wait(event) : done.stream->await(event);
      queue_->on_device(done, record_);
    }
    done_ = true;
  }

 private:
  bool on_device() const { return (in_ ? in_ : out_).device().kind == DeviceKind::cuda; }
  Transfer* transfer() const {
    const auto& all = queued_.launch->transfers;
    return queued_.index < all.size() ? all[queued_.index].get() : nullptr;
  }

  std::shared_ptr<RankQueue> queue_;
  Queued queued_;
  std::size_t side_index_;
  Tensor in_, out_;
  LedgerId record_;
  bool done_ = false;
};

int index_of(const std::vector<int>& members, int world_rank) {
  const auto at = std::find(members.begin(), members.end(), world_rank);
  FF_CHECK(at != members.end(), "world rank ", world_rank, " is not a member");
  return static_cast<int>(at - members.begin());
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::string name, const std::vector<int>& members, std::shared_ptr<RankQueue> queue)
      : Communicator(name, members, index_of(members, queue->rank()), queue->matcher().ledger(queue->rank())),
        queue_(std::move(queue)),
        group_(queue_->matcher().group(name, members)) {}

  void abort(std::string_view why) noexcept override {
    queue_->matcher().fail(queue_->rank(), std::make_exception_ptr(Error(std::string(why))));
  }

 private:
  Work do_all_reduce(const Tensor& inout, Reduce op, Stream& producer, TransferId id) override {
    return collective({CommOp::all_reduce, inout.bytes(), inout.dtype(), op, inout.device().kind},
                      side(inout, inout, producer, id), id);
  }
  Work do_all_gather(const Tensor& out, const Tensor& in, Stream& producer, TransferId id) override {
    return collective({CommOp::all_gather, out.bytes(), out.dtype(), {}, out.device().kind},
                      side(in, out, producer, id), id);
  }
  Work do_reduce_scatter(const Tensor& out, const Tensor& in, Stream& producer, TransferId id) override {
    return collective({CommOp::reduce_scatter, in.bytes(), in.dtype(), Reduce::sum, in.device().kind},
                      side(in, out, producer, id), id);
  }
  Work do_all_to_all(const Tensor& out, std::span<const std::int64_t> recv_rows, const Tensor& in,
                     std::span<const std::int64_t> send_rows, Stream& producer, TransferId id) override {
    auto mine = side(in, out, producer, id);
    mine.send_rows.assign(send_rows.begin(), send_rows.end());
    mine.recv_rows.assign(recv_rows.begin(), recv_rows.end());
    return collective({CommOp::all_to_all, -1, in.dtype(), {}, in.device().kind}, std::move(mine), id);
  }
  Work do_send(const Tensor& data, int to, Stream& producer, TransferId id) override {
    return point_to_point(data, rank(), to, 0, side(data, {}, producer, id), id);
  }
  Work do_recv(const Tensor& data, int from, Stream& producer, TransferId id) override {
    return point_to_point(data, from, rank(), 1, side({}, data, producer, id), id);
  }
  std::vector<std::string> do_gather_bytes(std::string_view mine, TransferId id) override;

  void group_begin() override { queue_->begin(); }
  void group_end() override { queue_->end(); }
  void group_cancel() noexcept override { queue_->cancel(); }

  TransferSide side(const Tensor& in, const Tensor& out, Stream& producer, TransferId id) const {
    const auto device = (in ? in : out).device();
    for (const auto* tensor : {&in, &out})
      FF_CHECK(!*tensor || (tensor->device() == device && device.kind != DeviceKind::none),
               "operands lie on one device");
    TransferSide side{in, out, {}, {}, {}, queue_->matcher().ledger(queue_->rank()), id.ledger};
    if (device.kind == DeviceKind::cuda) side.ready = producer.record();
    return side;
  }
  Work collective(const TransferSignature& signature, TransferSide mine, TransferId id) {
    return waiting({{group_, -1, -1, id.sequence},
                    signature,
                    members().size(),
                    static_cast<std::size_t>(rank()),
                    std::move(mine)});
  }
  Work point_to_point(const Tensor& data, int from, int to, std::size_t side_index, TransferSide mine,
                      TransferId id) {
    const TransferSignature signature{CommOp::send, data.bytes(), data.dtype(), {}, data.device().kind};
    return waiting({{group_, from, to, id.sequence}, signature, 2, side_index, std::move(mine)});
  }
  Work waiting(PendingTransfer transfer) {
    auto operands = transfer.side;
    const auto side_index = transfer.side_index;
    auto ticket = std::make_shared<Ticket>(queue_, queue_->reserve(), side_index, std::move(operands));
    queue_->add(std::move(transfer));
    return Work([ticket = std::move(ticket)](Stream& consumer) { ticket->wait(consumer); });
  }

  std::shared_ptr<RankQueue> queue_;
  const TransferGroup* group_;
};

std::vector<std::string> ThreadCommunicator::do_gather_bytes(std::string_view mine, TransferId id) {
  TransferSide own{.ledger = queue_->matcher().ledger(queue_->rank()), .record = id.ledger};
  own.bytes = std::string(mine);
  const TransferSignature signature{CommOp::host, -1, {}, {}};
  const auto launch = queue_->reserve().launch;
  queue_->add({{group_, -1, -1, id.sequence},
               signature,
               members().size(),
               static_cast<std::size_t>(rank()),
               std::move(own)});
  queue_->wait(*launch);
  return static_cast<const ThreadTransfer&>(*launch->transfers[0]->payload).gathered();
}

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(ThreadMatcher& matcher, int rank) : queue_(std::make_shared<RankQueue>(matcher, rank)) {
    std::vector<int> all(static_cast<std::size_t>(matcher.ranks()));
    std::iota(all.begin(), all.end(), 0);
    world_ = create("world", all);
  }
  Communicator& world() override { return *world_; }
  std::unique_ptr<Communicator> create(const std::string& name, const std::vector<int>& members) override {
    return std::make_unique<ThreadCommunicator>(names_.unique(name, members), members, queue_);
  }
  std::string_view kind() const override { return "thread"; }

 private:
  std::shared_ptr<RankQueue> queue_;
  GroupNames names_;
  std::unique_ptr<Communicator> world_;
};

void run_rank(ThreadMatcher& matcher, int rank, const std::function<void(Transport&)>& body) {
  try {
    ThreadTransport transport(matcher, rank);
    body(transport);
  } catch (...) {
    matcher.fail(rank, std::current_exception());
  }
  matcher.finish(rank);
}

}  // namespace

std::vector<std::shared_ptr<Ledger>> run_ranks(int ranks, const std::function<void(Transport&)>& body,
                                               const ThreadOptions& options) {
  FF_CHECK(ranks > 0, "ranks ", ranks);
  std::vector<std::shared_ptr<Ledger>> ledgers;
  for (int rank = 0; rank < ranks; ++rank)
    ledgers.push_back(std::make_shared<Ledger>(rank, options.ledger_capacity, options.keep_all));
  ThreadMatcher matcher(options, ledgers);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] { run_rank(matcher, rank, body); });
  }
  matcher.rethrow();
  return ledgers;
}

}  // namespace fivefold
