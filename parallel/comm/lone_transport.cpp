#include "parallel/comm/lone_transport.h"

#include <numeric>

namespace fivefold {

namespace {

class LoneCommunicator final : public Communicator {
 public:
  LoneCommunicator(std::string name, const std::vector<int>& members, int rank,
                   std::shared_ptr<Ledger> ledger)
      : Communicator(std::move(name), members, rank, std::move(ledger)) {}
  void abort(std::string_view) noexcept override {}

 private:
  // Only tensors without bytes may be given to ranks that are not there. The handle keeps them, as every
  // transport's does.
  static Work nothing(const Tensor& in, const Tensor& out) {
    for (const auto* t : {&in, &out})
      FF_CHECK(!*t || t->device().kind == DeviceKind::none,
               "a rank without the others cannot exchange values");
    return Work([in, out](Stream&) {});
  }
  Work do_all_reduce(const Tensor& inout, Reduce, Stream&, TransferId) override {
    return nothing(inout, inout);
  }
  Work do_all_gather(const Tensor& out, const Tensor& in, Stream&, TransferId) override {
    return nothing(in, out);
  }
  Work do_reduce_scatter(const Tensor& out, const Tensor& in, Stream&, TransferId) override {
    return nothing(in, out);
  }
  Work do_all_to_all(const Tensor& out, std::span<const std::int64_t>, const Tensor& in,
                     std::span<const std::int64_t>, Stream&, TransferId) override {
    return nothing(in, out);
  }
  Work do_send(const Tensor& data, int, Stream&, TransferId) override { return nothing(data, {}); }
  Work do_recv(const Tensor& data, int, Stream&, TransferId) override { return nothing({}, data); }
  std::vector<std::string> do_gather_bytes(std::string_view, TransferId) override {
    throw Error("a rank without the others cannot gather from them");
  }
  void group_begin() override {}
  void group_end() override {}
  void group_cancel() noexcept override {}
};

class LoneTransport final : public Transport {
 public:
  LoneTransport(int rank, int world) : rank_(rank), ledger_(std::make_shared<Ledger>(rank)) {
    std::vector<int> all(static_cast<std::size_t>(world));
    std::iota(all.begin(), all.end(), 0);
    world_ = create("world", all);
  }
  Communicator& world() override { return *world_; }
  std::unique_ptr<Communicator> create(const std::string& name, const std::vector<int>& members) override {
    const auto at = std::find(members.begin(), members.end(), rank_);
    FF_CHECK(at != members.end(), "world rank ", rank_, " is not a member of ", name);
    return std::make_unique<LoneCommunicator>(names_.unique(name, members), members,
                                              static_cast<int>(at - members.begin()), ledger_);
  }
  std::string_view kind() const override { return "lone"; }

 private:
  int rank_;
  std::shared_ptr<Ledger> ledger_;
  GroupNames names_;
  std::unique_ptr<Communicator> world_;
};

}  // namespace

std::unique_ptr<Transport> make_lone_transport(int rank, int world) {
  FF_CHECK(0 <= rank && rank < world, "rank ", rank, " of ", world);
  return std::make_unique<LoneTransport>(rank, world);
}

}  // namespace fivefold
