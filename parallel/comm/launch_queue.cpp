// Matching is monotone: running one transfer never takes away another's chance, so the order of events does
// not matter and a circle among the heads of queues is a deadlock for certain.
#include "parallel/comm/launch_queue.h"

#include <algorithm>

namespace fivefold {

namespace {

constexpr std::size_t kMembersShown = 16;

std::string to_string(const TransferGroup& group) {
  std::string text = str("group ", group.name, " {");
  for (std::size_t i = 0; i < std::min(group.members.size(), kMembersShown); ++i)
    text += str(i ? "," : "", group.members[i]);
  return text + (group.members.size() > kMembersShown ? str(",... ", group.members.size(), " ranks}") : "}");
}

bool contains(std::span<const int> values, int value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

std::string to_string(const TransferSignature& signature) {
  std::string text(name_of(signature.op));
  if (signature.reduce) text += str(" ", name_of(*signature.reduce));
  if (signature.dtype) text += str(" ", *signature.dtype);
  if (signature.bytes >= 0) text += str(" of ", signature.bytes, " bytes");
  if (signature.device == DeviceKind::cuda) text += " on a CUDA device";
  return text;
}

std::string to_string(const Transfer& transfer) {
  std::string text = str(name_of(transfer.signature.op), " #", transfer.key.sequence);
  if (transfer.key.from >= 0)
    text += str(" from rank ", transfer.participants()[0], " to rank ", transfer.participants()[1]);
  return text + " of " + to_string(*transfer.key.group);
}

Transfer::Transfer(const TransferKey& transfer_key, const TransferSignature& first_signature, int first)
    : key(transfer_key), signature(first_signature), first_rank(first), ends_{-1, -1} {
  const auto& members = key.group->members;
  if (key.from >= 0)
    ends_ = {members[static_cast<std::size_t>(key.from)], members[static_cast<std::size_t>(key.to)]};
}

std::span<const int> Transfer::participants() const {
  if (key.from >= 0) return ends_;
  return key.group->members;
}

bool Transfer::at_head_of(int world_rank) const { return contains(arrived, world_rank); }

std::shared_ptr<Transfer> LaunchQueues::join(int world_rank, const TransferKey& key,
                                             const TransferSignature& signature) {
  auto& transfer = open_[key];
  if (!transfer) transfer = std::make_shared<Transfer>(key, signature, world_rank);
  if (transfer->signature != signature)
    throw Error(str("ranks disagree about ", to_string(*transfer), ": rank ", transfer->first_rank, " has ",
                    to_string(transfer->signature), ", rank ", world_rank, " has ", to_string(signature)));
  return transfer;
}

void LaunchQueues::push(int world_rank, std::shared_ptr<Launch> launch,
                        std::vector<std::shared_ptr<Transfer>>& ready) {
  launch->remaining = launch->transfers.size();
  launch->queued = true;
  launch->done = launch->remaining == 0;
  if (launch->done) return;
  auto& queue = queues_[index(world_rank)];
  queue.push_back(std::move(launch));
  if (queue.size() == 1) expose(world_rank, ready);
}

void LaunchQueues::expose(int world_rank, std::vector<std::shared_ptr<Transfer>>& ready) {
  for (const auto& transfer : queues_[index(world_rank)].front()->transfers) {
    transfer->arrived.push_back(world_rank);
    if (transfer->arrived.size() == transfer->participants().size()) ready.push_back(transfer);
  }
}

void LaunchQueues::complete(const Transfer& transfer, std::vector<std::shared_ptr<Transfer>>& ready,
                            std::vector<int>& finished) {
  const auto keep = open_.extract(transfer.key);
  FF_CHECK(!keep.empty(), to_string(transfer), " completed twice");
  for (const int rank : transfer.participants()) {
    auto& queue = queues_[index(rank)];
    if (--queue.front()->remaining > 0) continue;
    queue.front()->done = true;
    finished.push_back(rank);
    queue.pop_front();
    if (!queue.empty()) expose(rank, ready);
  }
}

const Launch* LaunchQueues::head(int world_rank) const {
  const auto& queue = queues_[index(world_rank)];
  return queue.empty() ? nullptr : queue.front().get();
}

const Transfer* LaunchQueues::blocked_at(int world_rank) const {
  if (const auto* launch = head(world_rank))
    for (const auto& transfer : launch->transfers)
      if (open_.count(transfer->key)) return transfer.get();
  return nullptr;
}

std::vector<int> LaunchQueues::missing(const Transfer& transfer) const {
  std::vector<int> ranks;
  for (const int rank : transfer.participants())
    if (!transfer.at_head_of(rank)) ranks.push_back(rank);
  return ranks;
}

// Depth-first walk along "cannot go on before": path is the walk so far, dead_end a rank that will launch
// nothing more.
struct LaunchQueues::Search {
  std::vector<int> path;
  std::vector<bool> visited;
  int dead_end = -1;
};

// True when a circle or a dead end was reached; `path` then ends with the rank that closes it.
bool LaunchQueues::search(int world_rank, Search& state) const {
  const bool circle = contains(state.path, world_rank);
  state.path.push_back(world_rank);
  if (circle) return true;
  const auto* launch = head(world_rank);
  if (!launch && retired_[index(world_rank)]) state.dead_end = world_rank;
  if (state.dead_end >= 0) return true;
  if (launch && !state.visited[index(world_rank)]) {
    state.visited[index(world_rank)] = true;
    for (const auto& transfer : launch->transfers)
      if (open_.count(transfer->key))
        for (const int next : missing(*transfer))
          if (search(next, state)) return true;
  }
  state.path.pop_back();
  return false;
}

std::string LaunchQueues::describe_wait(int waiting, int waited_for) const {
  for (const auto& transfer : head(waiting)->transfers)
    if (open_.count(transfer->key) && contains(missing(*transfer), waited_for))
      return str("rank ", waiting, " is at ", to_string(*transfer), " and waits for rank ", waited_for);
  return {};
}

std::optional<std::string> LaunchQueues::deadlock(int world_rank) const {
  Search state{{}, std::vector<bool>(queues_.size(), false), -1};
  if (!head(world_rank) || !search(world_rank, state)) return std::nullopt;
  const auto& path = state.path;
  const auto start = state.dead_end >= 0 ? path.begin() : std::find(path.begin(), path.end(), path.back());
  std::string text = state.dead_end >= 0 ? "no partner: " : "launch order has a circle: ";
  for (auto at = start; at + 1 != path.end(); ++at)
    text += (at == start ? "" : "; ") + describe_wait(*at, *(at + 1));
  if (state.dead_end >= 0) text += str(", which has ended without launching it");
  return text;
}

}  // namespace fivefold
