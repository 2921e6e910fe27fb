// A rank without the others: exact in its ledger, and unable to make values up.
#include <gtest/gtest.h>

#include "parallel/comm/lone_transport.h"

namespace fivefold {
namespace {

Tensor tensor(Memory& memory, std::int64_t count) {
  CpuStream stream;
  return empty(memory, {count}, DType::f32, Tag::activations, stream);
}

TEST(LoneTransport, RecordsWhatARankWouldSend) {
  const auto transport = make_lone_transport(2, 4);
  const auto memory = make_counting_memory();
  CpuStream stream;
  auto& world = transport->world();
  EXPECT_EQ(world.rank(), 2);
  EXPECT_EQ(world.size(), 4);
  const auto large = tensor(*memory, 400), part = tensor(*memory, 100);
  world.all_reduce(large, Reduce::sum, stream).wait(stream);
  world.all_gather(large, part, stream).wait(stream);
  world.reduce_scatter(part, large, stream).wait(stream);
  world.send(part, 3, stream).wait(stream);
  world.recv(part, 1, stream).wait(stream);
  EXPECT_EQ(world.ledger().totals().at("world").sent_bytes, 2 * 1200 + 1200 + 1200 + 400);
  const auto pair = transport->create("pair", {2, 3});
  EXPECT_EQ(pair->rank(), 0);
  EXPECT_THROW(transport->create("others", {0, 1}), Error);
}

TEST(LoneTransport, ExchangesNoValues) {
  const auto transport = make_lone_transport(0, 2);
  CpuStream stream;
  const auto real = tensor(*make_cpu_memory(), 4);
  EXPECT_THROW((void)transport->world().all_reduce(real, Reduce::sum, stream), Error);
  EXPECT_THROW(transport->world().barrier(), Error);
}

TEST(LoneTransport, AWorldOfOneIsWhole) {
  const auto transport = make_lone_transport();
  CpuStream stream;
  const auto memory = make_cpu_memory();
  const auto a = tensor(*memory, 4), b = tensor(*memory, 4);
  a.data<float>()[0] = 7;
  transport->world().all_reduce(a, Reduce::sum, stream).wait(stream);
  transport->world().all_gather(b, a, stream).wait(stream);
  EXPECT_EQ(b.data<float>()[0], 7);
  EXPECT_EQ(transport->world().gather_bytes("x"), std::vector<std::string>{"x"});
}

}  // namespace
}  // namespace fivefold
