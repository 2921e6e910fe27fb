// CUDA tensors over MPI, staged through the host: values, the bits of threads, and messages that keep their
// order though they are sent when the device is ready. The ranks share the GPUs there are.
#include <gtest/gtest.h>

#include "core/copy.h"
#include "core/cuda.h"
#include "core/transfer.h"
#include "parallel/comm/thread_world.h"
#include "tests/mpi/session.h"
#include "tests/support/collective_cases.h"

namespace fivefold {
namespace {

class GpuMpi : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
    const int device = test::session().world_rank() % cuda_device_count();
    place_ = {make_cuda_memory(device, {.poison = true}), make_cuda_stream(device)};
    transport_ = make_mpi_transport(test::session());
  }
  Communicator& world() { return transport_->world(); }
  Stream& stream() { return *place_.stream; }
  Tensor number(double value) {
    return upload(*place_.memory, std::vector<double>{value}, {1}, DType::f32, Tag::communication, stream());
  }
  // Keeps the stream busy for some milliseconds.
  void keep_busy() {
    const auto big = empty(*place_.memory, {1 << 24}, DType::f32, Tag::workspace, stream());
    for (int i = 0; i < 200; ++i) copy_bytes(big.slice(0, 1 << 23), big.slice(1 << 23, 1 << 23), stream());
  }

  test::Place place_;
  std::unique_ptr<Transport> transport_;
};

TEST_F(GpuMpi, AllOperationsTypesAndSizes) { test::check_collectives(*transport_, place_); }

TEST_F(GpuMpi, HaveTheBitsOfThreads) {
  const auto over_mpi = test::hash_of_random_sums(*transport_, place_);
  std::uint64_t over_threads = 0;
  run_ranks(test::session().world_size(), [&](Transport& transport) {
    const auto hash = test::hash_of_random_sums(transport);
    if (transport.world().rank() == 0) over_threads = hash;
  });
  EXPECT_EQ(over_mpi, over_threads);
}

// The first of two messages waits for a busy device, the second lies on the host and is ready at once.
TEST_F(GpuMpi, MessagesToOnePartnerKeepTheirOrder) {
  if (world().size() == 1) GTEST_SKIP() << "nobody to send to";
  if (world().rank() > 1) return;
  const test::Place host;
  const auto on_host = upload(*host.memory, std::vector<double>{2}, {1}, DType::f32, Tag::data, *host.stream);
  const bool sends = world().rank() == 0;
  const auto first = number(sends ? 1 : 0);
  if (sends) keep_busy();
  auto one = sends ? world().send(first, 1, stream()) : world().recv(first, 0, stream());
  auto two = sends ? world().send(on_host, 1, *host.stream) : world().recv(on_host, 0, *host.stream);
  two.wait(*host.stream);
  one.wait(stream());
  EXPECT_EQ(to_host(first, stream()).at(0), 1);
  EXPECT_EQ(to_host(on_host, *host.stream).at(0), 2);
}

TEST_F(GpuMpi, AHostConsumerWaitsForTheResult) {
  const auto t = number(3);
  keep_busy();
  CpuStream host;
  world().all_reduce(t, Reduce::sum, stream()).wait(host);
  const auto unordered = make_cuda_stream(world().rank() % cuda_device_count());
  EXPECT_EQ(to_host(t, *unordered).at(0), 3 * world().size());
}

}  // namespace
}  // namespace fivefold
