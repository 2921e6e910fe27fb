// Who keeps a transfer from ending: a pure function of what the ranks' ledgers say.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "parallel/comm/ledger.h"

namespace fivefold {

// What a rank told of itself.
struct RankReport {
  bool answered = false;
  std::string activity;               // Ledger::activity
  std::vector<LedgerRecord> records;  // its last ones, oldest first
};

// One line a record, and back. Group names hold no spaces.
std::string to_text(const RankReport& report);
RankReport report_from(const std::string& text);

// The sentence of the job's last line. `stuck`: a transfer of `world_rank` that does not end; `reports` by
// world rank. Follows who waits for whom to ranks that do not answer, or that are at work on something else.
std::string name_culprit(const LedgerRecord& stuck, int world_rank, std::span<const RankReport> reports);

// The lowest world rank that told of a transfer under way: the one that speaks for all that wait. -1 without
// any.
int first_waiting(std::span<const RankReport> reports);

}  // namespace fivefold
