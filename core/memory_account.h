// The counters behind MemoryReport. Not thread safe: the pool that owns one locks around it.
#pragma once
#include "core/memory.h"

namespace fivefold {

class MemoryAccount {
 public:
  void add(Tag tag, std::int64_t bytes) {
    auto& now = report_.now[static_cast<std::size_t>(tag)];
    auto& peak = report_.peak[static_cast<std::size_t>(tag)];
    now += bytes;
    report_.now_total += bytes;
    peak = std::max(peak, now);
    report_.peak_total = std::max(report_.peak_total, report_.now_total);
  }
  void remove(Tag tag, std::int64_t bytes) {
    report_.now[static_cast<std::size_t>(tag)] -= bytes;
    report_.now_total -= bytes;
  }
  void reset_peaks() {
    report_.peak = report_.now;
    report_.peak_total = report_.now_total;
  }
  const MemoryReport& report() const { return report_; }
  // Throws OutOfMemory if `bytes` more would pass the limit.
  void check_limit(const MemoryOptions& options, Tag tag, std::int64_t bytes) const;

 private:
  MemoryReport report_;
};

}  // namespace fivefold
