// A timeline in the JSON format of Chrome's tracing, which Perfetto (ui.perfetto.dev) opens.
#pragma once
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace fivefold {

// One span on a track. Spans of a track may nest; those that overlap otherwise go to further tracks of the
// same name when they are written.
struct TraceSpan {
  int track = 0;  // index into TraceTimeline::tracks
  std::string name;
  std::int64_t begin_ns = 0, end_ns = 0;  // steady clock, which the processes of a host share
  int stage = -1, micro_batch = -1;       // -1: none
  std::int64_t bytes = -1;                // of a transfer
  std::string detail;                     // sizes of a product, peer of a transfer
};

struct TraceTimeline {
  int rank = 0;
  std::string rank_name;  // "rank 3 (pp 1, tp 1)"
  std::vector<std::string> tracks;
  std::vector<TraceSpan> spans;
};

// Spans by track and start, none overlapping another on its track except by lying inside it.
TraceTimeline in_lanes(TraceTimeline timeline);

// Writes the timeline, in_lanes. About 150 bytes a span.
void write_trace(std::ostream& out, const TraceTimeline& timeline);

}  // namespace fivefold
