// A walk along "has not launched what the other waits for", until ranks that wait for nobody.
#include "parallel/comm/culprit.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "core/error.h"

namespace fivefold {

namespace {

std::string to_line(const LedgerRecord& r) {
  std::string line = str(r.group, ' ', r.sequence, ' ', static_cast<int>(r.op), ' ', r.rank, ' ', r.peer, ' ',
                         r.stage, ' ', r.micro_batch, ' ', r.done_ns > 0 ? 1 : 0);
  for (const int member : r.members) line += str(' ', member);
  return line;
}

LedgerRecord from_line(const std::string& line) {
  std::istringstream words(line);
  LedgerRecord r;
  int op = 0;
  words >> r.group >> r.sequence >> op >> r.rank >> r.peer >> r.stage >> r.micro_batch >> r.done_ns;
  r.op = static_cast<CommOp>(op);
  for (int member = 0; words >> member;) r.members.push_back(member);
  return r;
}

bool is_message(CommOp op) { return op == CommOp::send || op == CommOp::recv; }

// World ranks whose part a transfer needs.
std::vector<int> participants(const LedgerRecord& r) {
  if (!is_message(r.op)) return r.members;
  const auto at = [&](int rank) { return r.members[static_cast<std::size_t>(rank)]; };
  return {at(r.rank), at(r.peer)};
}

// Whether `other` is this transfer, or a later one of its order, at any end of it.
bool reaches(const LedgerRecord& other, const LedgerRecord& r) {
  if (other.group != r.group || other.members != r.members || other.sequence < r.sequence) return false;
  if (!is_message(r.op)) return !is_message(other.op);
  const bool same_end = other.op == r.op && other.rank == r.rank && other.peer == r.peer;
  const bool far_end =
      is_message(other.op) && other.op != r.op && other.rank == r.peer && other.peer == r.rank;
  return same_end || far_end;
}

bool launched(const RankReport& report, const LedgerRecord& r) {
  return std::any_of(report.records.begin(), report.records.end(),
                     [&](const auto& x) { return reaches(x, r); });
}

const LedgerRecord* oldest_open(const RankReport& report) {
  for (const auto& record : report.records)
    if (record.done_ns == 0) return &record;
  return nullptr;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "world rank " : "world ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += str(i ? "," : "", ranks[i]);
  return text;
}

std::string describe(const LedgerRecord& r) {
  std::string text = str(r.group, " #", r.sequence, ' ', name_of(r.op), " of ", ranks_text(participants(r)));
  if (r.stage >= 0) text += str(", stage ", r.stage, " micro-batch ", r.micro_batch);
  return text;
}

std::string whereabouts(const RankReport& report) {
  if (!report.answered) return "does not answer: stopped, killed or cut off";
  return report.activity.empty() ? "waits for no transfer" : "is in " + report.activity;
}

struct Walk {
  std::span<const RankReport> reports;
  std::set<int> visited;
  std::string found;

  void blame(const LedgerRecord& r, int rank, const RankReport& report) {
    found += str(found.empty() ? "" : "; ", describe(r), ": world rank ", rank,
                 report.answered ? " never launched it and " : " ", whereabouts(report));
  }
  void follow(const LedgerRecord& r) {
    for (const int rank : participants(r)) {
      const auto& report = reports[static_cast<std::size_t>(rank)];
      if (report.answered && launched(report, r)) continue;
      if (!visited.insert(rank).second) continue;
      const auto* next = report.answered ? oldest_open(report) : nullptr;
      if (next)
        follow(*next);
      else
        blame(r, rank, report);
    }
  }
};

}  // namespace

std::string to_text(const RankReport& report) {
  std::string text = report.activity + '\n';
  for (const auto& record : report.records) text += to_line(record) + '\n';
  return text;
}

RankReport report_from(const std::string& text) {
  std::istringstream lines(text);
  RankReport report;
  report.answered = static_cast<bool>(std::getline(lines, report.activity));
  for (std::string line; std::getline(lines, line);) report.records.push_back(from_line(line));
  return report;
}

std::string name_culprit(const LedgerRecord& stuck, int world_rank, std::span<const RankReport> reports) {
  Walk walk{reports, {world_rank}, {}};
  walk.follow(stuck);
  if (!walk.found.empty()) return walk.found;
  return describe(stuck) + ": all its ranks launched it, so a device or the network hangs";
}

int first_waiting(std::span<const RankReport> reports) {
  for (std::size_t rank = 0; rank < reports.size(); ++rank)
    if (reports[rank].answered && oldest_open(reports[rank])) return static_cast<int>(rank);
  return -1;
}

}  // namespace fivefold
