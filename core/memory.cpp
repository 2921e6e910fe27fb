// Accounting per tag, shared by every pool, and its printed form.
#include "core/memory.h"

#include <numeric>
#include <vector>

namespace fivefold {

namespace {
constexpr std::array<std::string_view, kTags> kTagNames{"weights",       "gradients",   "master",
                                                        "moments",       "activations", "workspace",
                                                        "communication", "data",        "staging"};
}

std::string_view name_of(Tag tag) { return kTagNames[static_cast<std::size_t>(tag)]; }

std::string to_string(const MemoryReport& report) {
  std::vector<std::size_t> order(kTags);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return report.peak[a] > report.peak[b]; });
  const auto mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); };
  std::ostringstream out;
  out.setf(std::ios::fixed);
  out.precision(1);
  for (auto t : order)
    if (report.peak[t] > 0)
      out << kTagNames[t] << ": peak " << mib(report.peak[t]) << " MiB, now " << mib(report.now[t])
          << " MiB\n";
  out << "together: peak " << mib(report.peak_total) << " MiB, now " << mib(report.now_total) << " MiB\n";
  return out.str();
}

}  // namespace fivefold
