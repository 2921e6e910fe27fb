// The bodies of the cases. Element i of rank r's input is input(r, i); expectations are computed from it
// directly.
#include "tests/support/collective_cases.h"

#include <algorithm>
#include <numeric>

#include "core/copy.h"
#include "core/philox.h"

namespace fivefold::test {

namespace {

constexpr std::array kTypes{DType::f64, DType::f32, DType::bf16, DType::i32, DType::u8};

// 0 .. 12 when `natural` (u8), else -6 .. 6: sums over 16 ranks are exact even in bf16.
double input(int rank, std::int64_t i, DType dtype) {
  const auto value = static_cast<double>((rank * 7 + i * 3 + i / 11) % 13);
  return dtype == DType::u8 ? value : value - 6;
}

void set(const Tensor& t, std::int64_t i, double value) {
  switch (t.dtype()) {
    case DType::f64:
      t.data<double>()[i] = value;
      break;
    case DType::f32:
      t.data<float>()[i] = static_cast<float>(value);
      break;
    case DType::bf16:
      t.data<bf16>()[i] = bf16(static_cast<float>(value));
      break;
    case DType::i32:
      t.data<std::int32_t>()[i] = static_cast<std::int32_t>(value);
      break;
    default:
      t.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(value);
  }
}

double get(const Tensor& t, std::int64_t i) {
  switch (t.dtype()) {
    case DType::f64:
      return t.data<double>()[i];
    case DType::f32:
      return static_cast<double>(t.data<float>()[i]);
    case DType::bf16:
      return static_cast<double>(static_cast<float>(t.data<bf16>()[i]));
    case DType::i32:
      return t.data<std::int32_t>()[i];
    default:
      return t.data<std::uint8_t>()[i];
  }
}

Tensor on_host(std::int64_t count, DType dtype) {
  CpuStream inline_stream;
  return empty(*make_cpu_memory(), {count}, dtype, Tag::communication, inline_stream);
}

// The elements as they are once the work queued so far is done.
Tensor read(const Tensor& t, Stream& stream) {
  const auto copy = on_host(t.count(), t.dtype());
  copy_bytes(copy, t, stream);
  stream.synchronize();
  return copy;
}

// t[i] = value(i), in stream order.
template <class Value>
void write_each(const Tensor& t, Stream& stream, Value value) {
  const auto values = on_host(t.count(), t.dtype());
  for (std::int64_t i = 0; i < t.count(); ++i) set(values, i, value(i));
  copy_bytes(t, values, stream);
}

// Runs the cases on one communicator. Outputs lie between sentinels, which must survive.
class Cases {
 public:
  Cases(Communicator& comm, const Place& place)
      : comm_(comm), memory_(*place.memory), stream_(*place.stream), n_(comm.size()), me_(comm.rank()) {}

  void all_reduce(DType dtype, std::int64_t count, Reduce op) {
    const auto t = guarded(count, dtype);
    fill(t, me_, 0);
    comm_.all_reduce(t, op, stream_).wait(stream_);
    expect(t, "all_reduce", [&](std::int64_t i) { return reduced(i, dtype, op); });
    check_sentinels();
  }
  void all_gather(DType dtype, std::int64_t count, bool in_place) {
    const auto out = guarded(n_ * count, dtype);
    const auto in = in_place ? out.slice(me_ * count, count) : plain(count, dtype);
    fill(in, me_, 0);
    comm_.all_gather(out, in, stream_).wait(stream_);
    expect(out, "all_gather",
           [&](std::int64_t i) { return input(static_cast<int>(i / count), i % count, dtype); });
    check_sentinels();
  }
  void reduce_scatter(DType dtype, std::int64_t count, bool in_place) {
    const auto in = plain(n_ * count, dtype);
    const auto out = in_place ? in.slice(me_ * count, count) : guarded(count, dtype);
    fill(in, me_, 0);
    comm_.reduce_scatter(out, in, stream_).wait(stream_);
    expect(out, "reduce_scatter",
           [&](std::int64_t i) { return reduced(me_ * count + i, dtype, Reduce::sum); });
    if (!in_place) check_sentinels();
  }
  // Rank r sends (r + 2j) % 4 rows of 3 to rank j, numbered from 100j on.
  void all_to_all(DType dtype) {
    std::vector<std::int64_t> send, recv;
    std::vector<double> sent, wanted;
    for (int j = 0; j < n_; ++j) {
      send.push_back((me_ + 2 * j) % 4);
      recv.push_back((j + 2 * me_) % 4);
      for (std::int64_t k = 0; k < 3 * send.back(); ++k) sent.push_back(input(me_, 100 * j + k, dtype));
      for (std::int64_t k = 0; k < 3 * recv.back(); ++k) wanted.push_back(input(j, 100 * me_ + k, dtype));
    }
    const auto in = plain(3 * sum(send), dtype).view({sum(send), 3});
    const auto out = guarded(3 * sum(recv), dtype).view({sum(recv), 3});
    write_each(in, stream_, [&](std::int64_t i) { return sent[static_cast<std::size_t>(i)]; });
    comm_.all_to_all(out, recv, in, send, stream_).wait(stream_);
    expect(out, "all_to_all", [&](std::int64_t i) { return wanted[static_cast<std::size_t>(i)]; });
    check_sentinels();
  }
  // Everybody sends to the next and receives from the one before: needs the Group.
  void ring(DType dtype, std::int64_t count) {
    if (n_ == 1) return;
    const auto out = guarded(count, dtype);
    const auto in = plain(count, dtype);
    fill(in, me_, 5);
    Work sent, received;
    {
      Group group(comm_);
      sent = comm_.send(in, (me_ + 1) % n_, stream_);
      received = comm_.recv(out, (me_ + n_ - 1) % n_, stream_);
    }
    received.wait(stream_);
    sent.wait(stream_);
    expect(out, "ring", [&](std::int64_t i) { return input((me_ + n_ - 1) % n_, i + 5, dtype); });
    check_sentinels();
  }
  // Two messages to each pair of neighbours, in order, without a Group: even ranks send first.
  void pairs(DType dtype) {
    const int peer = me_ % 2 == 0 ? me_ + 1 : me_ - 1;
    if (peer >= n_) return;
    for (int message = 0; message < 4; ++message) {
      const auto t = plain(5, dtype);
      const bool sends = (message + me_) % 2 == 0;
      if (sends) fill(t, me_, message);
      auto work = sends ? comm_.send(t, peer, stream_) : comm_.recv(t, peer, stream_);
      work.wait(stream_);
      expect(t, "pairs", [&](std::int64_t i) { return input(sends ? me_ : peer, i + message, dtype); });
    }
  }
  // Several transfers under way, waited for in reverse order.
  void outstanding(DType dtype) {
    const auto reduced_one = plain(9, dtype), reduced_two = plain(700, dtype),
               gathered = plain(4 * n_, dtype);
    const auto mine = gathered.slice(4 * me_, 4);
    fill(reduced_one, me_, 0);
    fill(reduced_two, me_, 0);
    fill(mine, me_, 0);
    std::vector<Work> works;
    works.push_back(comm_.all_reduce(reduced_one, Reduce::sum, stream_));
    {
      Group outer(comm_);
      works.push_back(comm_.all_gather(gathered, mine, stream_));
      Group inner(comm_);
      works.push_back(comm_.all_reduce(reduced_two, Reduce::max, stream_));
    }
    while (!works.empty()) {
      works.back().wait(stream_);
      works.pop_back();
    }
    expect(reduced_one, "first of several", [&](std::int64_t i) { return reduced(i, dtype, Reduce::sum); });
    expect(reduced_two, "third of several", [&](std::int64_t i) { return reduced(i, dtype, Reduce::max); });
    expect(gathered, "second of several",
           [&](std::int64_t i) { return input(static_cast<int>(i / 4), i % 4, dtype); });
  }
  // The host runs ahead of the device: nobody looks at a value before the end.
  void chain(DType dtype) {
    constexpr std::int64_t kCount = 50'000;
    const auto whole = plain(n_ * kCount, dtype), part = plain(kCount, dtype), next = plain(kCount, dtype);
    for (int round = 0; round < 8; ++round) {
      fill(part, me_, round);
      comm_.all_gather(whole, part, stream_).wait(stream_);
      comm_.reduce_scatter(next, whole, stream_).wait(stream_);
      fill(part, 0, 0);  // the operand is ours again
    }
    const auto times_all = [&](std::int64_t i) { return n_ * input(me_, i + 7, dtype); };
    expect(next, "chain", times_all);
  }
  void host_bytes() {
    const std::string mine(static_cast<std::size_t>(me_ * 300), static_cast<char>('a' + me_));
    const auto all = comm_.gather_bytes(mine);
    FF_CHECK_EQ(static_cast<int>(all.size()), n_);
    for (int r = 0; r < n_; ++r)
      FF_CHECK(all[static_cast<std::size_t>(r)] ==
               std::string(static_cast<std::size_t>(r * 300), static_cast<char>('a' + r)));
    FF_CHECK_EQ(comm_.broadcast_bytes(str("from ", me_), n_ - 1), str("from ", n_ - 1));
    comm_.barrier();
  }

 private:
  static constexpr std::int64_t kGuard = 3;
  static std::int64_t sum(const std::vector<std::int64_t>& rows) {
    return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  }
  Tensor plain(std::int64_t count, DType dtype) {
    return empty(memory_, {count}, dtype, Tag::communication, stream_);
  }
  Tensor guarded(std::int64_t count, DType dtype) {
    whole_ = plain(count + 2 * kGuard, dtype);
    write_each(whole_, stream_, [](std::int64_t) { return 77; });
    return whole_.slice(kGuard, count);
  }
  void check_sentinels() {
    const auto whole = read(whole_, stream_);
    for (std::int64_t i = 0; i < kGuard; ++i)
      FF_CHECK(get(whole, i) == 77 && get(whole, whole.count() - 1 - i) == 77,
               "written outside of the output");
  }
  void fill(const Tensor& t, int rank, std::int64_t first) {
    write_each(t, stream_, [&](std::int64_t i) { return input(rank, first + i, t.dtype()); });
  }
  double reduced(std::int64_t i, DType dtype, Reduce op) const {
    double value = input(0, i, dtype);
    for (int r = 1; r < n_; ++r)
      value = op == Reduce::sum ? value + input(r, i, dtype) : std::max(value, input(r, i, dtype));
    return value;
  }
  template <class Wanted>
  void expect(const Tensor& t, std::string_view what, Wanted wanted) {
    const auto values = read(t, stream_);
    for (std::int64_t i = 0; i < t.count(); ++i)
      FF_CHECK_EQ(get(values, i), wanted(i), what, " of ", t.count(), " ", t.dtype(), " on rank ", me_,
                  " of ", n_, ", element ", i);
  }

  Communicator& comm_;
  Memory& memory_;
  Stream& stream_;
  int n_, me_;
  Tensor whole_;  // of the last guarded output
};

void check_on(Communicator& comm, const Place& place) {
  Cases cases(comm, place);
  for (const auto dtype : kTypes) {
    for (const std::int64_t count : {0, 1, 7, 1001, 40'000}) {
      for (const bool in_place : {false, true}) cases.all_gather(dtype, count, in_place);
      cases.ring(dtype, count);
      if (dtype == DType::u8) continue;
      for (const auto op : {Reduce::sum, Reduce::max}) cases.all_reduce(dtype, count, op);
      for (const bool in_place : {false, true}) cases.reduce_scatter(dtype, count, in_place);
    }
    cases.all_to_all(dtype);
    cases.pairs(dtype);
    if (dtype == DType::u8) continue;
    cases.outstanding(dtype);
    cases.chain(dtype);
  }
  cases.host_bytes();
}

// Ranks of one parity, highest first, so that group rank and world rank differ.
std::vector<int> same_parity(const Communicator& world) {
  std::vector<int> members;
  for (int r = world.size() - 1; r >= 0; --r)
    if (r % 2 == world.rank() % 2) members.push_back(r);
  return members;
}

std::uint64_t hash_of(const Tensor& t, Stream& stream) {
  const auto values = read(t, stream);
  return hash_name({reinterpret_cast<const char*>(values.raw()), static_cast<std::size_t>(values.bytes())});
}

}  // namespace

void check_collectives(Transport& transport, const Place& place) {
  check_on(transport.world(), place);
  const auto half = transport.create("half", same_parity(transport.world()));
  check_on(*half, place);
  const auto self = transport.create("self", {transport.world().rank()});
  check_on(*self, place);
}

std::uint64_t hash_of_random_sums(Transport& transport, const Place& place) {
  auto& world = transport.world();
  auto& stream = *place.stream;
  const auto rank = static_cast<std::uint64_t>(world.rank());
  std::string hashes;
  for (const auto dtype : {DType::f64, DType::f32, DType::bf16})
    for (const std::int64_t part : {1, 37, 2049}) {
      const auto t = empty(*place.memory, {part * world.size()}, dtype, Tag::communication, stream);
      const auto own = empty(*place.memory, {part}, dtype, Tag::communication, stream);
      write_each(t, stream,
                 [&](std::int64_t i) { return philox_normal(7, rank, static_cast<std::uint64_t>(i)); });
      world.reduce_scatter(own, t, stream).wait(stream);
      world.all_reduce(t, Reduce::sum, stream).wait(stream);
      FF_CHECK(hash_of(own, stream) == hash_of(t.slice(world.rank() * part, part), stream),
               "reduce_scatter and all_reduce differ");
      hashes += str(hash_of(t, stream), ' ');
    }
  const auto mine = hash_name(hashes);
  for (const auto& other : world.gather_bytes(hashes))
    FF_CHECK_EQ(other, hashes, "ranks hold different bits");
  return mine;
}

}  // namespace fivefold::test
