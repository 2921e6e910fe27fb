// Ends a job whose ranks are processes when a transfer does not end: finds out from all ranks, over sockets
// of its own, who is missing, and says so. A rank that is stopped or spins cannot answer MPI, so MPI is not
// asked.
#pragma once
#include <chrono>
#include <functional>
#include <memory>

#include "parallel/comm/communicator.h"

namespace fivefold {

struct WatchOptions {
  // Longest time from launch to end of a transfer, by what this rank does (Ledger::activity).
  std::function<std::chrono::milliseconds(const std::string& activity)> deadline;
  std::chrono::milliseconds answer{2000};  // how long another rank may take to answer
  // Called with the sentence; ends the process. Empty: Communicator::abort of the world, and in case that
  // hangs, a signal that ends the process.
  std::function<void(const std::string&)> end;
};

class Watch {
 public:
  // Collective over the transport's world. Watches from a thread of its own until destroyed; `transport`
  // outlives it.
  Watch(Transport& transport, WatchOptions options);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace fivefold
