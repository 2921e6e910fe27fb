// Cuts an op's work among the threads of its rank. The cut depends on (threads, n, grain) only, never on how
// many cores the process was given, so results are the same on every machine.
#pragma once
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/context.h"

namespace fivefold::cpu {

// Number of parts into which n items are cut: at least `grain` items each, at most `threads` parts.
inline std::int64_t part_count(int threads, std::int64_t n, std::int64_t grain) {
  return std::clamp<std::int64_t>(n / std::max<std::int64_t>(grain, 1), 1, std::max(threads, 1));
}

// Calls run(state, part) for all parts, each on a thread of its own as far as there are cores; rethrows the
// first exception of a part. Not to be nested.
void run_parts(std::int64_t parts, void (*run)(void* state, std::int64_t part), void* state);

// Calls f(begin, end) for the parts of [0, n).
template <class F>
void parallel_for(int threads, std::int64_t n, std::int64_t grain, F&& f) {
  if (n <= 0) return;
  const std::int64_t parts = part_count(threads, n, grain);
  if (parts == 1) return f(std::int64_t{0}, n);
  auto part = [&](std::int64_t p) { f(n * p / parts, n * (p + 1) / parts); };
  run_parts(
      parts, [](void* state, std::int64_t p) { (*static_cast<decltype(part)*>(state))(p); }, &part);
}

// The same for an op: items of `cost` operations each (about one a nanosecond).
template <class F>
void parallel_for(const CpuContext& ctx, std::int64_t n, std::int64_t cost, F&& f) {
  parallel_for(ctx.threads, n, ceil_div(ctx.thread_work, std::max<std::int64_t>(cost, 1)),
               std::forward<F>(f));
}

}  // namespace fivefold::cpu
