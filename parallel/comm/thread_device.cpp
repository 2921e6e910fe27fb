// Every device that has an operand takes part: it adds up a range of an all_reduce, or fills the outputs that
// lie on it from wherever their values are.
#include "parallel/comm/thread_device.h"

#include <numeric>
#include <set>

#include "core/cuda.h"
#include "parallel/comm/device_work.h"

namespace fivefold {

namespace {

constexpr std::int64_t kGrain = 256;  // elements: ranges of an all_reduce start at whole 16 bytes

const Tensor& any_operand(const TransferSide& side) { return side.in ? side.in : side.out; }
int device_of(const TransferSide& side) { return any_operand(side).device().index; }

std::int64_t rows_before(std::span<const std::int64_t> rows, std::size_t index) {
  return std::accumulate(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(index), std::int64_t{0});
}

class DeviceWork {
 public:
  DeviceWork(const Transfer& transfer, std::span<const TransferSide> sides, DeviceStreams& streams)
      : transfer_(transfer), sides_(sides), streams_(streams) {
    for (const auto& side : sides_) devices_.insert(device_of(side));
    if (devices_.size() > 1) open_all();
    for (const int device : devices_)
      for (const auto& side : sides_) stream(device).wait(side.ready);
  }

  DeviceDone queue() {
    for (const auto& side : sides_) side.ledger->device_begin(side.record, stream(device_of(side)));
    switch (transfer_.signature.op) {
      case CommOp::all_reduce:
        all_reduce();
        break;
      case CommOp::reduce_scatter:
        for (std::size_t r = 0; r < sides_.size(); ++r) reduce_to(r);
        break;
      default:
        for (const int device : devices_) copy_on_device(copies_to(device), stream(device));
    }
    for (const auto& side : sides_) side.ledger->device_end(side.record, stream(device_of(side)));
    DeviceDone done;
    for (const int device : devices_) done.events.push_back(stream(device).record());
    done.stream = &stream(*devices_.begin());
    return done;
  }

 private:
  Stream& stream(int device) { return streams_.stream(transfer_.key.group, device); }

  void open_all() {
    for (const auto& side : sides_)
      for (const int device : devices_)
        for (const auto* t : {&side.in, &side.out})
          if (*t && t->bytes() > 0) give_access(t->raw(), t->device().index, device);
  }

  // Addresses of element `first` of all inputs.
  RankOperands inputs_from(std::int64_t first) const {
    RankOperands operands;
    for (const auto& side : sides_) operands.in.push_back(side.in.raw() + first * size_of(side.in.dtype()));
    return operands;
  }

  // Each device adds up one range for all. An operand is overwritten only where its values have been read.
  void all_reduce() {
    const auto& first_side = sides_[0].in;
    const auto of_device =
        round_up(ceil_div(first_side.count(), static_cast<std::int64_t>(devices_.size())), kGrain);
    std::int64_t first = 0;
    for (const int device : devices_) {
      auto operands = inputs_from(first);
      for (const auto* in : operands.in) operands.out.push_back(const_cast<std::byte*>(in));
      const auto count = std::clamp<std::int64_t>(first_side.count() - first, 0, of_device);
      reduce_on_device(operands, first_side.dtype(), count, *transfer_.signature.reduce, stream(device));
      first += count;
    }
  }

  void reduce_to(std::size_t rank) {
    const auto& out = sides_[rank].out;
    auto operands = inputs_from(static_cast<std::int64_t>(rank) * out.count());
    operands.out.push_back(out.raw());
    reduce_on_device(operands, out.dtype(), out.count(), Reduce::sum, stream(device_of(sides_[rank])));
  }

  std::vector<CopyPart> copies_to(int device) const {
    std::vector<CopyPart> parts;
    for (std::size_t to = 0; to < sides_.size(); ++to) {
      if (!sides_[to].out || device_of(sides_[to]) != device) continue;
      if (transfer_.signature.op == CommOp::all_gather) gather_to(sides_[to].out, parts);
      if (transfer_.signature.op == CommOp::all_to_all) rows_to(to, parts);
      if (transfer_.signature.op == CommOp::send)
        parts.push_back({sides_[to].out.raw(), sides_[0].in.raw(), sides_[0].in.bytes()});
    }
    return parts;
  }
  void gather_to(const Tensor& out, std::vector<CopyPart>& parts) const {
    auto* to = out.raw();
    for (const auto& side : sides_) {
      parts.push_back({to, side.in.raw(), side.in.bytes()});
      to += side.in.bytes();
    }
  }
  void rows_to(std::size_t receiver, std::vector<CopyPart>& parts) const {
    const auto& out = sides_[receiver].out;
    const auto row_bytes = out.shape().row_count() * size_of(out.dtype());
    auto* to = out.raw();
    for (const auto& side : sides_) {
      const auto bytes = side.send_rows[receiver] * row_bytes;
      parts.push_back({to, side.in.raw() + rows_before(side.send_rows, receiver) * row_bytes, bytes});
      to += bytes;
    }
  }

  const Transfer& transfer_;
  std::span<const TransferSide> sides_;
  DeviceStreams& streams_;
  std::set<int> devices_;
};

}  // namespace

Stream& DeviceStreams::stream(const TransferGroup* group, int device) {
  std::lock_guard lock(mutex_);
  auto& stream = streams_[{group, device}];
  if (!stream) stream = make_cuda_stream(device);
  return *stream;
}

DeviceDone queue_on_devices(const Transfer& transfer, std::span<const TransferSide> sides,
                            DeviceStreams& streams) {
  const KeepCurrentDevice keep;
  return DeviceWork(transfer, sides, streams).queue();
}

}  // namespace fivefold
