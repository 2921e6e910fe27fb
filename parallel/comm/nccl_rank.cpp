// Every launch is an NCCL group, also one of a single call, so there is one way to launch.
#include "parallel/comm/nccl_rank.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "core/cuda.h"
#include "core/cuda_check.h"
#include "parallel/comm/nccl_check.h"

namespace fivefold {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::hours kNoLimit{24 * 365};
constexpr int kEagerPolls = 1000;
constexpr std::chrono::seconds kWordOfOthers{4};

ncclConfig_t nonblocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

}  // namespace

NcclRank::NcclRank(int device, std::shared_ptr<Ledger> ledger, std::chrono::milliseconds deadline_init)
    : device_(device),
      ledger_(std::move(ledger)),
      memory_(make_cuda_memory(device)),
      deadline_init_(deadline_init) {
  // Communicators run in the order in which this thread launches, equal on all ranks.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
}

void NcclRank::check_alive() const {
  if (aborted_) throw Error("NCCL transfers were stopped, since a rank failed");
}

// In progress or success. Where it is another rank that has gone, that one or its launcher is given the time
// to say so and to end this process too.
ncclResult_t NcclRank::state_of(ncclComm_t comm) const {
  ncclResult_t state = ncclSuccess;
  FF_NCCL(ncclCommGetAsyncError(comm, &state));
  if (state == ncclRemoteError) std::this_thread::sleep_for(kWordOfOthers);
  check_nccl(state, "a transfer under way", __FILE__, __LINE__, comm);
  return state;
}

// Until NCCL has taken the last call on `comm`. The first polls do not sleep: most calls are taken at once.
void NcclRank::settle(ncclComm_t comm, std::chrono::milliseconds limit) {
  const auto start = Clock::now();
  for (int polls = 0;; ++polls) {
    check_alive();
    if (state_of(comm) == ncclSuccess) return;
    FF_CHECK(Clock::now() - start < limit, "NCCL did not join the ranks within ",
             std::chrono::duration_cast<std::chrono::seconds>(limit).count(), " s");
    if (polls > kEagerPolls) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void NcclRank::adopt(ncclComm_t comm) {
  comms_.insert(comm);
  settle(comm, deadline_init_);
}

ncclComm_t NcclRank::join(int members, const ncclUniqueId& id, int rank) {
  std::lock_guard lock(calling_);
  check_alive();
  FF_CUDA(cudaSetDevice(device_));
  auto config = nonblocking();
  ncclComm_t comm = nullptr;
  FF_NCCL(ncclCommInitRankConfig(&comm, members, id, rank, &config));
  adopt(comm);
  return comm;
}

ncclComm_t NcclRank::split(ncclComm_t parent, int color, int key) {
  std::lock_guard lock(calling_);
  check_alive();
  FF_CUDA(cudaSetDevice(device_));
  auto config = nonblocking();
  ncclComm_t comm = nullptr;
  FF_NCCL(ncclCommSplit(parent, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &comm, &config));
  settle(parent, deadline_init_);
  if (comm) adopt(comm);
  return comm;
}

void NcclRank::connect(ncclComm_t comm, const std::function<void()>& calls) {
  std::lock_guard lock(calling_);
  check_alive();
  FF_NCCL(ncclGroupStart());
  calls();
  FF_NCCL(ncclGroupEnd());
  settle(comm, deadline_init_);
}

void NcclRank::leave(ncclComm_t comm) noexcept {
  if (std::uncaught_exceptions() > 0) abort();
  std::lock_guard lock(calling_);
  if (comms_.erase(comm) == 0) return;  // aborted
  try {
    FF_NCCL(ncclCommFinalize(comm));
    settle(comm, deadline_init_);
    FF_NCCL(ncclCommDestroy(comm));
  } catch (const Error&) {
    ncclCommAbort(comm);
  }
}

void NcclRank::abort() noexcept {
  std::lock_guard lock(calling_);
  aborted_ = true;
  for (auto* comm : comms_) ncclCommAbort(comm);
  comms_.clear();
}

void NcclRank::begin() { ++depth_; }

void NcclRank::add(std::shared_ptr<NcclTransfer> transfer) {
  check_alive();
  open_.push_back(std::move(transfer));
  if (depth_ == 0) launch_open();
}

void NcclRank::end() {
  if (--depth_ == 0) launch_open();
}

void NcclRank::cancel() noexcept {
  --depth_;
  open_.clear();
  abort();
}

void NcclRank::call(std::span<const std::shared_ptr<NcclTransfer>> launch) {
  std::lock_guard lock(calling_);
  check_alive();
  FF_NCCL(ncclGroupStart());
  for (const auto& transfer : launch) transfer->call();
  FF_NCCL(ncclGroupEnd());
  std::set<ncclComm_t> comms;
  for (const auto& transfer : launch) comms.insert(transfer->comm);
  for (auto* comm : comms) settle(comm, kNoLimit);
}

void NcclRank::launch_open() {
  const auto launch = std::exchange(open_, {});
  if (launch.empty()) return;
  call(launch);
  for (const auto& transfer : launch) {
    if (transfer->after) transfer->after();
    transfer->done = transfer->stream->record();
    ledger_->device_end(transfer->record, *transfer->stream);
    transfer->launched = true;
    transfer->call = transfer->after = nullptr;
  }
  {
    std::lock_guard lock(mutex_);
    under_way_.insert(under_way_.end(), launch.begin(), launch.end());
  }
  poll();
}

void NcclRank::check() {
  poll();
  const std::unique_lock lock(calling_, std::try_to_lock);
  if (!lock) return;
  for (auto* comm : comms_) state_of(comm);
}

void NcclRank::poll() {
  FF_CUDA(cudaSetDevice(device_));  // another thread's is the first one until it says so
  std::lock_guard lock(mutex_);
  for (auto& transfer : under_way_) {
    if (!transfer->told_begun && transfer->stream->reached(transfer->begun)) {
      ledger_->started(transfer->record);
      transfer->told_begun = true;
    }
    if (!transfer->told_begun) break;
  }
  for (; !under_way_.empty() && under_way_.front()->stream->reached(under_way_.front()->done);
       under_way_.pop_front())
    ledger_->done(under_way_.front()->record);
}

}  // namespace fivefold
