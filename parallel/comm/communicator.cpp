// The part of every transfer that no transport may vary: checks, the ledger record, and the identity of a
// group of one. Bytes sent follow the ring convention, whatever the transport does: all_reduce 2(n-1)/n of
// the operand, all_gather and reduce_scatter (n-1)/n of the large operand, all_to_all what goes to others,
// send everything, recv nothing.
#include "parallel/comm/communicator.h"

#include <numeric>

#include "core/copy.h"
#include "core/profiler_range.h"

namespace fivefold {

namespace {

void check_reducible(DType dtype) {
  FF_CHECK(dtype != DType::u8 && dtype != DType::i16, dtype, " is not reduced");
}

std::int64_t total(std::span<const std::int64_t> rows) {
  for (const auto n : rows) FF_CHECK(n >= 0, "a row count of ", n);
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

// One side of an all_to_all.
void check_rows(const Tensor& tensor, std::span<const std::int64_t> rows, int size) {
  FF_CHECK(tensor.shape().rank() > 0, "all_to_all moves rows");
  FF_CHECK_EQ(static_cast<int>(rows.size()), size, "one row count per member");
  FF_CHECK_EQ(total(rows), tensor.dim(0), "row counts add up to the tensor's rows");
}

// A whole (`large`) of `size` equal parts (`part`).
void check_parts(const Tensor& large, const Tensor& part, int size) {
  FF_CHECK_EQ(large.dtype(), part.dtype());
  FF_CHECK_EQ(large.count(), size * part.count(), "the whole is ", size, " parts");
}

}  // namespace

std::string_view name_of(Reduce op) { return op == Reduce::sum ? "sum" : "max"; }

Communicator::Communicator(std::string name, std::vector<int> members, int rank,
                           std::shared_ptr<Ledger> ledger)
    : name_(std::move(name)), members_(std::move(members)), rank_(rank), ledger_(std::move(ledger)) {
  FF_CHECK(0 <= rank_ && rank_ < size(), "rank ", rank_, " of group ", name_, " with ", size(), " members");
}

std::int64_t Communicator::next_sequence(CommOp op, int peer) {
  if (op == CommOp::send) return sends_[peer]++;
  if (op == CommOp::recv) return recvs_[peer]++;
  return collectives_++;
}

TransferId Communicator::record(CommOp op, std::int64_t bytes, std::int64_t sent_bytes, int peer) {
  FF_CHECK(!*dropped_, "an earlier transfer of group ", name_, " was never waited for");
  LedgerRecord record;
  record.group = name_;
  record.members = members_;
  record.sequence = next_sequence(op, peer);
  record.op = op;
  record.bytes = bytes;
  record.sent_bytes = sent_bytes;
  record.rank = rank_;
  record.peer = peer;
  const auto sequence = record.sequence;
  return {ledger_->enqueue(std::move(record)), sequence};
}

Work Communicator::guarded(Work work) const {
  work.dropped_ = dropped_;
  return work;
}

Work Communicator::all_reduce(const Tensor& inout, Reduce op, Stream& producer) {
  check_reducible(inout.dtype());
  if (size() == 1) return {};
  const ProfilerRange range("all_reduce");
  const auto id = record(CommOp::all_reduce, inout.bytes(), 2 * (size() - 1) * inout.bytes() / size());
  return guarded(do_all_reduce(inout, op, producer, id));
}

Work Communicator::all_gather(const Tensor& out, const Tensor& in, Stream& producer) {
  check_parts(out, in, size());
  if (size() == 1) return copy_bytes(out, in, producer), Work();
  const ProfilerRange range("all_gather");
  const auto id = record(CommOp::all_gather, out.bytes(), (size() - 1) * in.bytes());
  return guarded(do_all_gather(out, in, producer, id));
}

Work Communicator::reduce_scatter(const Tensor& out, const Tensor& in, Stream& producer) {
  check_reducible(in.dtype());
  check_parts(in, out, size());
  if (size() == 1) return copy_bytes(out, in, producer), Work();
  const ProfilerRange range("reduce_scatter");
  const auto id = record(CommOp::reduce_scatter, in.bytes(), (size() - 1) * out.bytes());
  return guarded(do_reduce_scatter(out, in, producer, id));
}

Work Communicator::all_to_all(const Tensor& out, std::span<const std::int64_t> recv_rows, const Tensor& in,
                              std::span<const std::int64_t> send_rows, Stream& producer) {
  check_rows(in, send_rows, size());
  check_rows(out, recv_rows, size());
  FF_CHECK_EQ(out.dtype(), in.dtype());
  FF_CHECK_EQ(out.shape().row_count(), in.shape().row_count(), "rows of one length");
  const auto me = static_cast<std::size_t>(rank_);
  FF_CHECK_EQ(send_rows[me], recv_rows[me], "rows to oneself");
  if (size() == 1) return copy_bytes(out, in, producer), Work();
  const auto row_bytes = in.shape().row_count() * size_of(in.dtype());
  const ProfilerRange range("all_to_all");
  const auto id =
      record(CommOp::all_to_all, std::max(in.bytes(), out.bytes()), in.bytes() - send_rows[me] * row_bytes);
  return guarded(do_all_to_all(out, recv_rows, in, send_rows, producer, id));
}

void Communicator::check_peer(CommOp op, int peer) const {
  FF_CHECK(0 <= peer && peer < size() && peer != rank_, name_of(op), " between rank ", rank_, " and ", peer,
           " of ", size());
}

Work Communicator::send(const Tensor& data, int to, Stream& producer) {
  check_peer(CommOp::send, to);
  const ProfilerRange range("send");
  return guarded(do_send(data, to, producer, record(CommOp::send, data.bytes(), data.bytes(), to)));
}

Work Communicator::recv(const Tensor& data, int from, Stream& producer) {
  check_peer(CommOp::recv, from);
  const ProfilerRange range("recv");
  return guarded(do_recv(data, from, producer, record(CommOp::recv, data.bytes(), 0, from)));
}

std::vector<std::string> Communicator::gather_bytes(std::string_view mine) {
  if (size() == 1) return {std::string(mine)};
  FF_CHECK(!ledger_->launch_open(), "gather_bytes blocks, so it cannot be part of a Group");
  const auto bytes = static_cast<std::int64_t>(mine.size());
  return do_gather_bytes(mine, record(CommOp::host, bytes, (size() - 1) * bytes));
}

std::string Communicator::broadcast_bytes(std::string_view mine, int root) {
  FF_CHECK(0 <= root && root < size(), "root ", root, " of ", size());
  auto all = gather_bytes(rank_ == root ? mine : std::string_view{});
  return std::move(all[static_cast<std::size_t>(root)]);
}

std::string GroupNames::unique(const std::string& name, const std::vector<int>& members) {
  const auto n = ++used_[{name, members}];
  return n == 1 ? name : str(name, "#", n);
}

}  // namespace fivefold
