// The NCCL transport: values, groups made by splitting the world and among their members
// only, host tensors on the same communicators, and launches that no host waits for.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/copy.h"
#include "core/cuda.h"
#include "core/transfer.h"
#include "tests/mpi/nccl_ranks.h"
#include "tests/mpi/session.h"
#include "tests/support/collective_cases.h"

namespace fivefold {
namespace {

class GpuNccl : public testing::Test {
 protected:
  void SetUp() override {
    if (!nccl_available()) GTEST_SKIP() << "built without NCCL";
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
    const int device = test::shared_device(test::session().world_rank());
    mpi_ = make_mpi_transport(test::session(), {.keep_all = true});
    nccl_ = test::make_nccl(*mpi_);
    place_ = {make_cuda_memory(device, {.poison = true}), make_cuda_stream(device)};
  }
  Communicator& world() { return nccl_->world(); }
  Stream& stream() { return *place_.stream; }
  Tensor on_device(const std::vector<double>& values, DType dtype = DType::f32) {
    return upload(*place_.memory, values, {static_cast<std::int64_t>(values.size())}, dtype,
                  Tag::communication, stream());
  }

  std::unique_ptr<Transport> mpi_, nccl_;
  test::Place place_;
};

TEST_F(GpuNccl, AllOperationsTypesAndSizes) {
  EXPECT_EQ(nccl_->kind(), "nccl");
  test::check_collectives(*nccl_, place_);
}

TEST_F(GpuNccl, HostTensorsGoTheOtherWay) { test::check_collectives(*nccl_); }

TEST_F(GpuNccl, GroupsAreSplitFromTheWorld) {
  const int ranks = world().size(), rank = world().rank();
  std::vector<int> own;
  for (int r = rank % 2; r < ranks; r += 2) own.push_back(r);
  const auto parity = ranks % 2 == 0 ? nccl_->split("parity", own) : nullptr;
  const bool at_end = rank == 0 || rank == ranks - 1;
  const auto ends =
      nccl_->split("ends", ranks < 2 || !at_end ? std::vector<int>{} : std::vector<int>{0, ranks - 1});
  EXPECT_EQ(ends != nullptr, ranks >= 2 && at_end);
  for (auto* group : {parity.get(), ends.get()}) {
    if (!group) continue;
    const auto t = on_device({static_cast<double>(rank)});
    group->all_reduce(t, Reduce::sum, stream()).wait(stream());
    double wanted = 0;
    for (const int r : group->members()) wanted += r;
    EXPECT_EQ(to_host(t, stream()).at(0), wanted) << group->name();
  }
}

// A launch of two messages whose other end launches them one by one, and looks at the first in between: the
// first must not wait for the second's other end.
TEST_F(GpuNccl, PartsOfAGroupDoNotWaitForEachOther) {
  if (world().size() == 1) GTEST_SKIP() << "nobody to send to";
  const auto pipeline = nccl_->split("pipeline", world().members());
  pipeline->connect_neighbours();
  if (world().rank() > 1) return;
  const int peer = 1 - world().rank();
  const auto there = on_device({1}), back = on_device({2});
  const auto pass = [&](const Tensor& t, bool sends) {
    return sends ? pipeline->send(t, peer, stream()) : pipeline->recv(t, peer, stream());
  };
  if (peer == 1) {
    Work sent, received;
    {
      Group group(*pipeline);
      sent = pass(there, true);
      received = pass(back, false);
    }
    sent.wait(stream());
    received.wait(stream());
    EXPECT_EQ(to_host(back, stream()).at(0), 11);
  } else {
    pass(there, false).wait(stream());
    stream().synchronize();
    pass(on_device({11}), true).wait(stream());
    stream().synchronize();
  }
}

TEST_F(GpuNccl, NanStays) {
  const int ranks = world().size();
  for (const auto dtype : {DType::f64, DType::f32, DType::bf16})
    for (const auto op : {Reduce::sum, Reduce::max}) {
      std::vector<double> values(static_cast<std::size_t>(ranks), 1.0);  // element r is a NaN on rank r
      values[static_cast<std::size_t>(world().rank())] = std::numeric_limits<double>::quiet_NaN();
      const auto t = on_device(values, dtype);
      world().all_reduce(t, op, stream()).wait(stream());
      for (const double value : to_host(t, stream())) EXPECT_TRUE(std::isnan(value)) << dtype << name_of(op);
    }
}

// In an order of its own, but for all members alike.
TEST_F(GpuNccl, MembersHoldTheSameBits) {
  std::vector<double> values;
  for (int i = 0; i < 100'003; ++i) values.push_back(std::sin(i + 1000.0 * world().rank()));
  for (const auto dtype : {DType::f32, DType::bf16}) {
    const auto t = on_device(values, dtype);
    world().all_reduce(t, Reduce::sum, stream()).wait(stream());
    std::string text;
    for (const double value : to_host(t, stream())) text += str(value, ' ');
    for (const auto& other : world().gather_bytes(text)) EXPECT_EQ(other == text, true) << dtype;
  }
}

TEST_F(GpuNccl, DevicesWaitAndHostsDoNot) {
  if (world().size() == 1) GTEST_SKIP() << "a group of one launches nothing";
  const auto t = on_device({1});
  world().all_reduce(t, Reduce::sum, stream()).wait(stream());
  stream().synchronize();
  const auto big = empty(*place_.memory, {1 << 28}, DType::f32, Tag::workspace, stream());
  for (int i = 0; i < 100; ++i) copy_bytes(big.slice(0, 1 << 27), big.slice(1 << 27, 1 << 27), stream());
  auto work = world().all_reduce(t, Reduce::sum, stream());
  work.wait(stream());
  EXPECT_FALSE(stream().reached(stream().record()));
  EXPECT_EQ(to_host(t, stream()).at(0), world().size() * world().size());
}

TEST_F(GpuNccl, LedgerKnowsWhatIsDone) {
  test::check_collectives(*nccl_, place_);
  stream().synchronize();
  world().barrier();
  world().all_reduce(on_device({1}), Reduce::sum, stream()).wait(stream());
  for (const auto& record : world().ledger().records()) {
    if (record.id + 1 == static_cast<LedgerId>(world().ledger().records().size())) continue;  // the last one
    EXPECT_GE(record.started_ns, record.enqueued_ns) << record.group << name_of(record.op);
    EXPECT_GE(record.done_ns, record.started_ns) << record.group << name_of(record.op);
  }
  stream().synchronize();
}

}  // namespace
}  // namespace fivefold
