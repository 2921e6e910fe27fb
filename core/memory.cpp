// Accounting per tag, shared by every pool, its printed form, and what a pool says that is full.
#include <cstdio>
#include <numeric>
#include <vector>

#include "core/memory_account.h"

namespace fivefold {

namespace {
constexpr std::array<std::string_view, kTags> kTagNames{"weights",       "gradients",   "master",
                                                        "moments",       "activations", "workspace",
                                                        "communication", "data",        "staging"};

std::string mib(std::int64_t bytes) {
  std::array<char, 32> text;
  const double size = static_cast<double>(bytes) / (1024.0 * 1024.0);
  return {text.data(), static_cast<std::size_t>(std::snprintf(text.data(), text.size(), "%.1f MiB", size))};
}

}  // namespace

std::string_view name_of(Tag tag) { return kTagNames[static_cast<std::size_t>(tag)]; }

std::string to_string(const MemoryReport& report) {
  std::vector<std::size_t> order(kTags);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return report.peak[a] > report.peak[b]; });
  std::string out;
  for (auto t : order)
    if (report.peak[t] > 0)
      out += str(kTagNames[t], ": peak ", mib(report.peak[t]), ", now ", mib(report.now[t]), '\n');
  return out + str("together: peak ", mib(report.peak_total), ", now ", mib(report.now_total), '\n');
}

OutOfMemory::OutOfMemory(std::int64_t bytes, Tag tag, const Room& room, const MemoryReport& report)
    : Error(str("out of memory: ", mib(bytes), " for ", name_of(tag), " do not fit\n", room.text,
                "\nin use by this rank:\n", to_string(report))),
      bytes_(bytes),
      room_(room.bytes),
      tag_(tag),
      report_(report) {}

OutOfMemory::OutOfMemory(const OutOfMemory& error, const std::string& what)
    : Error(str(error.what(), what, '\n')),
      bytes_(error.bytes_),
      room_(error.room_),
      tag_(error.tag_),
      report_(error.report_) {}

void MemoryAccount::check_limit(const MemoryOptions& options, Tag tag, std::int64_t bytes) const {
  if (options.limit_bytes == 0 || report_.now_total + bytes <= options.limit_bytes) return;
  throw OutOfMemory(bytes, tag,
                    {options.limit_bytes, str("the limit is ", mib(options.limit_bytes), ", of which ",
                                              mib(options.limit_bytes - report_.now_total), " are free")},
                    report_);
}

}  // namespace fivefold
