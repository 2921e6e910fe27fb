// N ranks that are threads of one process, in strict mode: sends rendezvous, one launch at a time per rank in
// the order of launch_queue.h, so what would hang NCCL hangs here too, and is caught: a circle or a partner
// that has ended within fractions of a second, anything else after `patience`. Results are bitwise
// reproducible (rank_sum.h).
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "parallel/comm/communicator.h"

namespace fivefold {

struct ThreadOptions {
  std::chrono::milliseconds patience{60'000};  // longest wait for ranks that are busy elsewhere
  std::size_t ledger_capacity = 256;
  bool keep_all = false;  // ledgers remember every transfer
};

// Runs `body` once per rank, each on its own thread with its own transport, and returns the ranks' ledgers.
// When a rank throws, or calls Communicator::abort, all others throw at their next or present transfer; the
// first failure is rethrown as "rank R: what", a UserError as a UserError. Transfers that nobody waited for
// must have found their partners.
std::vector<std::shared_ptr<Ledger>> run_ranks(int ranks, const std::function<void(Transport&)>& body,
                                               const ThreadOptions& options = {});

}  // namespace fivefold
