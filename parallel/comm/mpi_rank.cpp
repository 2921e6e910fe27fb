// A rank that waits moves all of its operations on, so no wait depends on the order in which another rank
// waits.
#include "parallel/comm/mpi_rank.h"

#include <limits>
#include <thread>

#include "core/cuda.h"
#include "parallel/comm/mpi_check.h"

namespace fivefold {

namespace {

constexpr int kEagerPolls = 100;

void check_received(const MPI_Status& status, std::int64_t expected) {
  if (expected < 0) return;
  int received = 0;
  FF_MPI(MPI_Get_count(&status, MPI_BYTE, &received));
  FF_CHECK_EQ(received, expected, "bytes from group rank ", status.MPI_SOURCE,
              ": the ranks disagree about a transfer");
}

}  // namespace

Staging::Staging(Device device) {
  FF_CHECK(device.kind == DeviceKind::cuda, "MPI moves host and CUDA tensors");
  memory = make_pinned_memory(device.index);
  stream = make_cuda_stream(device.index);
}

Staging::Copies Staging::copies_of(const Tensor& out, const Tensor& in) {
  const auto like = [this](const Tensor& t) {
    return t ? empty(*memory, t.shape(), t.dtype(), Tag::staging, *stream) : Tensor();
  };
  const auto within = [](const Tensor& whole, const Tensor& part) {
    return whole && part && whole.raw() <= part.raw() &&
           part.raw() + part.bytes() <= whole.raw() + whole.bytes();
  };
  const auto same_part = [](const Tensor& whole, const Tensor& part, const Tensor& host) {
    return host.slice((part.raw() - whole.raw()) / size_of(whole.dtype()), part.count()).view(part.shape());
  };
  if (within(out, in)) {
    const auto host = like(out);
    return {host, same_part(out, in, host)};
  }
  const auto host = like(in);
  return {within(in, out) ? same_part(in, out, host) : like(out), host};
}

std::function<bool()> Staging::when_reached(Event event) const {
  return [this, event = std::move(event)] { return stream->reached(event); };
}

MpiRank::MpiRank(const MpiSession& session, const MpiOptions& options)
    : ledger_(std::make_shared<Ledger>(session.world_rank(), options.ledger_capacity, options.keep_all)),
      memory_(options.memory ? options.memory : make_cpu_memory()),
      message_bytes_(options.message_bytes),
      world_rank_(session.world_rank()) {
  FF_CHECK(0 < message_bytes_ && message_bytes_ <= std::numeric_limits<int>::max(), "messages of ",
           message_bytes_);
}

Tensor MpiRank::room(std::int64_t count, DType dtype) {
  CpuStream inline_stream;
  return empty(*memory_, {count}, dtype, Tag::communication, inline_stream);
}

Staging& MpiRank::staging(Device device) { return staging_.try_emplace(device.index, device).first->second; }

void MpiRank::start(OperationPtr operation) {
  ledger_->started(operation->record);
  if (!advance(*operation)) pending_.push_back(std::move(operation));
}

void MpiRank::wait(const Operation& operation) {
  FF_CHECK(!ledger_->launch_open(), "a transfer is waited for inside its Group, before it was launched");
  for (int polls = 0; !operation.done; ++polls) {
    if (polls > kEagerPolls) std::this_thread::yield();  // there may be more ranks than cores
    poll();
  }
}

void MpiRank::poll() {
  for (auto at = pending_.begin(); at != pending_.end();)
    at = advance(**at) ? pending_.erase(at) : std::next(at);
}

bool MpiRank::advance(Operation& operation) {
  while (messages_done(operation)) {
    if (operation.ready && !operation.ready()) return false;
    operation.ready = nullptr;
    operation.requests.clear();
    operation.expected_bytes.clear();
    if (auto step = std::exchange(operation.next, nullptr)) {
      step();
      continue;
    }
    operation.operands.clear();
    ledger_->done(operation.record);
    return operation.done = true;
  }
  return false;
}

bool MpiRank::messages_done(Operation& operation) {
  const auto n = operation.requests.size();
  statuses_.resize(std::max(statuses_.size(), n));
  int done = 0;
  const int code = MPI_Testall(static_cast<int>(n), operation.requests.data(), &done, statuses_.data());
  if (code == MPI_ERR_IN_STATUS)
    for (std::size_t i = 0; i < n; ++i)
      if (statuses_[i].MPI_ERROR != MPI_ERR_PENDING) FF_MPI(statuses_[i].MPI_ERROR);
  FF_MPI(code);
  for (std::size_t i = 0; done && i < n; ++i) check_received(statuses_[i], operation.expected_bytes[i]);
  return done != 0;
}

}  // namespace fivefold
