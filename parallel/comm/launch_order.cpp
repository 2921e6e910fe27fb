// Replays the ledgers through the queues of the strict mode: what cannot drain would hang.
#include "parallel/comm/launch_order.h"

#include <set>

#include "parallel/comm/launch_queue.h"

namespace fivefold {

namespace {

// Equal groups of different ranks become one object, since a key holds its address.
class Groups {
 public:
  const TransferGroup* of(const LedgerRecord& record) {
    auto& group = groups_[{record.group, record.members}];
    if (!group) group = std::make_unique<TransferGroup>(TransferGroup{record.group, record.members});
    return group.get();
  }

 private:
  std::map<std::pair<std::string, std::vector<int>>, std::unique_ptr<TransferGroup>> groups_;
};

TransferKey key_of(const LedgerRecord& record, Groups& groups) {
  const auto* group = groups.of(record);
  if (record.op == CommOp::send) return {group, record.rank, record.peer, record.sequence};
  if (record.op == CommOp::recv) return {group, record.peer, record.rank, record.sequence};
  return {group, -1, -1, record.sequence};
}

TransferSignature signature_of(const LedgerRecord& record) {
  const bool ragged = record.op == CommOp::host || record.op == CommOp::all_to_all;
  const auto op = record.op == CommOp::recv ? CommOp::send : record.op;
  return {op, ragged ? -1 : record.bytes, {}, {}};
}

}  // namespace

void check_launch_order(std::span<const std::vector<LedgerRecord>> by_world_rank) {
  const auto ranks = static_cast<int>(by_world_rank.size());
  LaunchQueues queues(ranks);
  Groups groups;
  std::vector<std::shared_ptr<Transfer>> ready;
  for (int rank = 0; rank < ranks; ++rank) {
    std::map<std::int64_t, std::shared_ptr<Launch>> launches;  // in launch order
    for (const auto& record : by_world_rank[static_cast<std::size_t>(rank)]) {
      auto& launch = launches[record.launch];
      if (!launch) launch = std::make_shared<Launch>();
      launch->transfers.push_back(queues.join(rank, key_of(record, groups), signature_of(record)));
    }
    for (auto& [number, launch] : launches) queues.push(rank, std::move(launch), ready);
    queues.retire(rank);
  }
  std::vector<int> finished;
  while (!ready.empty()) {
    const auto transfer = ready.back();
    ready.pop_back();
    queues.complete(*transfer, ready, finished);
  }
  for (int rank = 0; rank < ranks; ++rank)
    if (const auto why = queues.deadlock(rank)) throw Error(*why);
}

}  // namespace fivefold
