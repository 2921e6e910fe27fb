// Whoever makes a transfer ready sees to its data, with the help of ranks that wait anyway; nothing is copied
// under the lock, and a rank sleeps on its own condition variable.
#include "parallel/comm/thread_matcher.h"

#include <algorithm>
#include <thread>

namespace fivefold {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kProbe{50};  // how soon a waiting rank looks for a deadlock

ThreadTransfer& payload_of(Transfer& transfer) { return static_cast<ThreadTransfer&>(*transfer.payload); }

std::string what_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "unknown exception";
  }
}

}  // namespace

ThreadMatcher::ThreadMatcher(const ThreadOptions& options, std::vector<std::shared_ptr<Ledger>> ledgers)
    : options_(options), ledgers_(std::move(ledgers)), queues_(ranks()), waiters_(ledgers_.size()) {}

const TransferGroup* ThreadMatcher::group(const std::string& name, const std::vector<int>& members) {
  std::lock_guard lock(mutex_);
  for (const auto& group : groups_)
    if (group->name == name && group->members == members) return group.get();
  return groups_.emplace_back(std::make_unique<TransferGroup>(TransferGroup{name, members})).get();
}

void ThreadMatcher::check_alive() const {
  if (failure_) throw Error(failure_text_);
}

void ThreadMatcher::join(int rank, Launch& launch, PendingTransfer part) {
  auto transfer = queues_.join(rank, part.key, part.signature);
  if (!transfer->payload) transfer->payload = std::make_unique<ThreadTransfer>(part.sides);
  payload_of(*transfer).set_side(part.side_index, std::move(part.side));
  launch.transfers.push_back(std::move(transfer));
}

void ThreadMatcher::queue(int rank, std::shared_ptr<Launch> launch, std::vector<PendingTransfer> parts) {
  Ready ready;
  {
    Lock lock(mutex_);
    check_alive();
    try {
      for (auto& part : parts) join(rank, *launch, std::move(part));
    } catch (const Error& error) {
      fail_and_throw(rank, lock, error.what());
    }
    queues_.push(rank, std::move(launch), ready);
  }
  run(rank, std::move(ready));
}

// Runs ready transfers, and those that become ready by it, until others have taken over or none is left.
void ThreadMatcher::run(int rank, Ready ready) {
  while (!ready.empty()) {
    const auto transfer = std::move(ready.back());
    ready.pop_back();
    if (!start(rank, *transfer)) continue;
    if (payload_of(*transfer).tasks() > 1) offer(transfer);
    if (payload_of(*transfer).run() || payload_of(*transfer).tasks() == 0) complete(*transfer, ready);
  }
}

// False for a transfer that a rank has withdrawn from.
bool ThreadMatcher::start(int rank, Transfer& transfer) {
  if (transfer.signature.device == DeviceKind::cuda && !claim(transfer)) return false;
  try {
    payload_of(transfer).prepare(transfer, device_streams_);
    return true;
  } catch (...) {
    fail(rank, std::current_exception());
    release_claim(transfer);
    throw;
  }
}

bool ThreadMatcher::claim(Transfer& transfer) {
  std::lock_guard lock(mutex_);
  auto& state = payload_of(transfer).state;
  if (state == ThreadTransfer::State::withdrawn) return false;
  state = ThreadTransfer::State::running;
  return true;
}

void ThreadMatcher::release_claim(Transfer& transfer) noexcept {
  std::lock_guard lock(mutex_);
  payload_of(transfer).state = ThreadTransfer::State::withdrawn;
}

void ThreadMatcher::withdraw(Transfer& transfer, std::size_t side_index) noexcept {
  using State = ThreadTransfer::State;
  auto& payload = payload_of(transfer);
  const auto claimed = [&] {
    std::lock_guard lock(mutex_);
    if (payload.state == State::waiting) payload.state = State::withdrawn;
    if (payload.state != State::running) payload.drop_side(side_index);
    return payload.state;
  };
  while (claimed() == State::running) std::this_thread::yield();  // queueing does not wait for devices
  if (payload.state != State::finished) return;
  try {
    for (const auto& event : payload.device_done().events) payload.device_done().stream->await(event);
  } catch (const Error&) {  // the device has failed: nothing runs on it any more
  }
}

// Wakes waiting participants, no more than there are other cores.
void ThreadMatcher::offer(const std::shared_ptr<Transfer>& transfer) {
  const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  auto wanted = std::min(cores, payload_of(*transfer).tasks()) - 1;
  if (wanted <= 0) return;
  std::lock_guard lock(mutex_);
  runnable_.push_back(transfer);
  for (const int rank : transfer->participants()) {
    auto& waiter = waiters_[static_cast<std::size_t>(rank)];
    if (waiter.waiting && wanted-- > 0) waiter.changed.notify_one();
  }
}

void ThreadMatcher::complete(Transfer& transfer, Ready& ready) {
  std::vector<int> finished;
  payload_of(transfer).release();
  std::lock_guard lock(mutex_);
  std::erase_if(runnable_, [&](const auto& other) { return other.get() == &transfer; });
  payload_of(transfer).state = ThreadTransfer::State::finished;
  queues_.complete(transfer, ready, finished);
  for (const int rank : finished) {
    auto& waiter = waiters_[static_cast<std::size_t>(rank)];
    if (waiter.waiting) waiter.changed.notify_one();
  }
}

std::shared_ptr<Transfer> ThreadMatcher::take_runnable() {
  std::erase_if(runnable_, [](const auto& transfer) { return payload_of(*transfer).exhausted(); });
  return runnable_.empty() ? nullptr : runnable_.front();
}

// True after it has moved data for somebody; the lock is released meanwhile.
bool ThreadMatcher::help(int rank, Lock& lock) {
  const auto transfer = take_runnable();
  if (!transfer) return false;
  lock.unlock();
  if (payload_of(*transfer).run()) {
    Ready ready;
    complete(*transfer, ready);
    run(rank, std::move(ready));
  }
  lock.lock();
  return true;
}

void ThreadMatcher::wait(int rank, const Launch& launch) {
  FF_CHECK(launch.queued, "a transfer is waited for inside its Group, before it was launched");
  auto& self = waiters_[static_cast<std::size_t>(rank)];
  const auto start = Clock::now();
  Lock lock(mutex_);
  while (!launch.done) {
    check_alive();
    if (help(rank, lock)) continue;
    self.waiting = true;
    const bool quiet =
        self.changed.wait_for(lock, std::min(kProbe, options_.patience)) == std::cv_status::timeout;
    self.waiting = false;
    if (!quiet || launch.done) continue;
    if (const auto why = queues_.deadlock(rank)) fail_and_throw(rank, lock, *why);
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
    const auto* blocked = queues_.blocked_at(rank);
    if (waited >= options_.patience && blocked && !queues_.missing(*blocked).empty())
      fail_and_throw(rank, lock, describe_stall(rank, waited));
  }
}

std::string ThreadMatcher::describe_stall(int rank, std::chrono::milliseconds waited) const {
  const auto& transfer = *queues_.blocked_at(rank);
  std::string text = str("waited ", static_cast<double>(waited.count()) / 1000, " s at ", to_string(transfer),
                         "; not there:");
  std::string_view comma = " ";
  for (const int other : queues_.missing(transfer)) {
    text += str(comma, "rank ", other);
    comma = ", ";
    const auto* at = queues_.blocked_at(other);
    if (at) text += str(" (at ", to_string(*at), ")");
    const auto activity = ledger(other)->activity();
    if (!at && !activity.empty()) text += str(" (in ", activity, ")");
  }
  return text;
}

void ThreadMatcher::fail_and_throw(int rank, Lock& lock, const std::string& why) {
  check_alive();
  lock.unlock();
  fail(rank, std::make_exception_ptr(Error(why)));
  throw Error(why);
}

void ThreadMatcher::fail(int rank, std::exception_ptr why) noexcept {
  const auto text = str("stopped, since rank ", rank, " failed: ", what_of(why));
  std::lock_guard lock(mutex_);
  if (!failure_) {
    failure_ = std::move(why);
    failed_rank_ = rank;
    failure_text_ = text;
  }
  for (auto& waiter : waiters_) waiter.changed.notify_one();
}

void ThreadMatcher::finish(int rank) {
  std::lock_guard lock(mutex_);
  queues_.retire(rank);
}

void ThreadMatcher::rethrow() const {
  if (failure_) {
    const auto text = str("rank ", failed_rank_, ": ", what_of(failure_));
    try {
      std::rethrow_exception(failure_);
    } catch (const UserError&) {
      throw UserError(text);
    } catch (...) {
      throw Error(text);
    }
  }
  for (int rank = 0; rank < ranks(); ++rank)
    if (const auto* left = queues_.blocked_at(rank))
      throw Error(str("rank ", rank, ": ended with ", to_string(*left), " unfinished"));
}

}  // namespace fivefold
