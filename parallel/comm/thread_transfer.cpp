// Task i of a transfer is a fixed range of it, so results do not depend on which thread runs what.
#include "parallel/comm/thread_transfer.h"

#include <cstring>
#include <numeric>

#include "parallel/comm/rank_sum.h"
#include "parallel/comm/thread_device.h"

namespace fivefold {

namespace {

constexpr std::int64_t kTaskElements = 1 << 15;
constexpr std::int64_t kTaskBytes = 1 << 18;

void move_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

std::int64_t rows_before(std::span<const std::int64_t> rows, std::size_t index) {
  return std::accumulate(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(index), std::int64_t{0});
}

}  // namespace

void ThreadTransfer::prepare(const Transfer& transfer, DeviceStreams& streams) {
  op_ = transfer.signature.op;
  reduce_ = transfer.signature.reduce.value_or(Reduce::sum);
  if (op_ == CommOp::all_to_all) check_rows(transfer);
  for (auto& side : sides_) side.ledger->started(side.record);
  if (transfer.signature.device == DeviceKind::cuda)
    device_done_ = queue_on_devices(transfer, sides_, streams);
  else
    count_tasks();
}

void ThreadTransfer::count_tasks() {
  const auto ranks = static_cast<std::int64_t>(sides_.size());
  if (op_ == CommOp::all_reduce) tasks_ = part_tasks_ = ceil_div(sides_[0].in.count(), kTaskElements);
  if (op_ == CommOp::reduce_scatter) part_tasks_ = ceil_div(sides_[0].out.count(), kTaskElements);
  if (op_ == CommOp::all_gather) part_tasks_ = ceil_div(sides_[0].in.bytes(), kTaskBytes);
  if (op_ == CommOp::reduce_scatter || op_ == CommOp::all_gather) tasks_ = ranks * part_tasks_;
  if (op_ == CommOp::send) tasks_ = ceil_div(sides_[0].in.bytes(), kTaskBytes);
  if (op_ == CommOp::all_to_all) tasks_ = ranks;
}

void ThreadTransfer::check_rows(const Transfer& transfer) const {
  for (std::size_t from = 0; from < sides_.size(); ++from)
    for (std::size_t to = 0; to < sides_.size(); ++to)
      FF_CHECK_EQ(sides_[from].send_rows[to], sides_[to].recv_rows[from], "rows that group rank ", from,
                  " sends and rank ", to, " expects in ", to_string(transfer));
}

bool ThreadTransfer::run() {
  bool last = false;
  for (auto task = next_.fetch_add(1); task < tasks_; task = next_.fetch_add(1)) {
    run_task(task);
    last = done_.fetch_add(1) + 1 == tasks_;
  }
  return last;
}

void ThreadTransfer::run_task(std::int64_t task) {
  const auto part = static_cast<std::size_t>(part_tasks_ > 0 ? task / part_tasks_ : 0);
  const auto at = part_tasks_ > 0 ? task % part_tasks_ : task;
  const auto& first = sides_[0];
  switch (op_) {
    case CommOp::all_reduce:
      return reduce_part(at * kTaskElements, first.in.count(), 0, true);
    case CommOp::reduce_scatter:
      return reduce_part(at * kTaskElements, first.out.count(), part, false);
    case CommOp::all_gather:
      return gather_part(part, at * kTaskBytes, first.in.bytes());
    case CommOp::all_to_all:
      return scatter_rows_to(static_cast<std::size_t>(task));
    default:
      break;
  }
  const auto begin = at * kTaskBytes;
  move_bytes(sides_[1].out.raw() + begin, first.in.raw() + begin,
             std::min(kTaskBytes, first.in.bytes() - begin));
}

// Elements [first, first + kTaskElements) of part `out_side` of `count` elements. An all_reduce is one part,
// written `everywhere`. A side's operand is overwritten only in the range that this task has read already.
void ThreadTransfer::reduce_part(std::int64_t first, std::int64_t count, std::size_t out_side,
                                 bool everywhere) {
  const auto dtype = sides_[0].in.dtype();
  const auto n = std::min(kTaskElements, count - first);
  const auto part_offset = static_cast<std::int64_t>(out_side) * count;
  std::vector<const std::byte*> in;
  for (const auto& side : sides_) in.push_back(side.in.raw() + (part_offset + first) * size_of(dtype));
  auto* out = sides_[out_side].out.raw() + first * size_of(dtype);
  reduce_in_rank_order(out, in, dtype, n, reduce_);
  if (!everywhere) return;
  for (const auto& side : sides_)
    move_bytes(side.out.raw() + first * size_of(dtype), out, n * size_of(dtype));
}

void ThreadTransfer::gather_part(std::size_t source, std::int64_t first, std::int64_t bytes) {
  const auto* from = sides_[source].in.raw() + first;
  const auto offset = static_cast<std::int64_t>(source) * bytes + first;
  for (const auto& side : sides_)
    move_bytes(side.out.raw() + offset, from, std::min(kTaskBytes, bytes - first));
}

void ThreadTransfer::scatter_rows_to(std::size_t receiver) {
  const auto& out = sides_[receiver].out;
  const auto row_bytes = out.shape().row_count() * size_of(out.dtype());
  auto* to = out.raw();
  for (const auto& side : sides_) {
    const auto bytes = side.send_rows[receiver] * row_bytes;
    move_bytes(to, side.in.raw() + rows_before(side.send_rows, receiver) * row_bytes, bytes);
    to += bytes;
  }
}

void ThreadTransfer::release() {
  for (auto& side : sides_) {
    side.in = {};
    side.out = {};
    if (device_done_.events.empty()) side.ledger->done(side.record);
  }
}

std::vector<std::string> ThreadTransfer::gathered() const {
  std::vector<std::string> all;
  for (const auto& side : sides_) all.push_back(side.bytes);
  return all;
}

}  // namespace fivefold
